package redisledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// leastRights is all that a Redis user of quotad needs, as ACL SETUSER takes it, to decide: the keys below the prefix,
// and these commands of the scripts' and of the client.
const leastRights = "~quotad:* +ping +eval +evalsha +time +info +get +set +del +pexpire +hget +hmget +hgetall +hset " +
	"+hsetnx +hdel +hincrby +zadd +zcard +zcount +zscore +zrange +zrangebyscore +zrevrangebyscore +zremrangebyrank"

// What it needs beside in a Cluster.
const clusterRights = "+cluster|slots"

// withRights returns how a server is reached by a user who has these rights and no others.
func withRights(t testing.TB, server *redistest.Server, rights string) Config {
	t.Helper()
	server.Do(t, append([]string{"ACL", "SETUSER", "budget", "reset", "on", ">open-sesame"}, strings.Fields(rights)...)...)
	return Config{Addrs: []string{server.Addr}, Username: "budget", Password: "open-sesame"}
}

// TestDeployments uses all there is of a store in each way in which one may meet a Redis.
func TestDeployments(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) Config{
		"a port": func(t *testing.T) Config { return Config{Addrs: []string{redistest.StartTCP(t).Addr}} },
		"a password": func(t *testing.T) Config {
			return Config{Addrs: []string{redistest.Start(t, "--requirepass", "open sesame").Addr}, Password: "open sesame"}
		},
		"TLS": func(t *testing.T) Config {
			server, config := redistest.StartTLS(t)
			return Config{Addrs: []string{server.Addr}, TLS: config}
		},
		"Sentinel": func(t *testing.T) Config {
			w := redistest.StartSentinels(t, 1, 1)
			return Config{Addrs: []string{w.Sentinels[0].Addr}, MasterName: w.Name}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := everyVerb(t, start(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A Cluster is used as one, also by one of its addresses, for logs and for clients.
func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	for _, node := range nodes {
		if err := everyVerb(t, Config{Addrs: []string{node.Addr}}); err != nil {
			t.Error(err)
		}
	}
	config := Config{}
	for _, rights := range []string{leastRights, leastRights + " " + clusterRights} {
		for _, node := range nodes {
			config = withRights(t, node, rights)
		}
		config.Addrs = []string{nodes[0].Addr, nodes[1].Addr}
		if err := everyVerb(t, config); (err == nil) != (rights != leastRights) {
			t.Errorf("got %v by a user with %s", err, rights)
		}
	}
}

// With these rights a user can do all its work, and without any one of them it cannot.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rights := strings.Fields(leastRights)
	for i, right := range rights {
		server.Order(t, "SCRIPT FLUSH")
		others := slices.Delete(slices.Clone(rights), i, i+1)
		if err := everyVerb(t, withRights(t, server, strings.Join(others, " "))); err == nil {
			t.Errorf("nothing was missed without %s", right)
		}
	}
	page, err := os.ReadFile("../../cmd/quotad/HOSTS.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "ACL SETUSER quotad on >PASSWORD " + leastRights + "\n"; !strings.Contains(string(page), want) {
		t.Errorf("the page does not say %q", want)
	}
	server.Order(t, "ACL LOG RESET")
	config := withRights(t, server, leastRights)
	if err := everyVerb(t, config); err != nil {
		t.Error(err)
	}
	if lacks, err := openAt(t, config).Check(t.Context(), true); err != nil || len(lacks) == 0 {
		t.Errorf("got %q, %v, want what it lacks", lacks, err)
	}
	if refused := server.Do(t, "ACL", "LOG"); len(refused.([]any)) > 0 {
		t.Errorf("the server refused %v", refused)
	}
}

// everyVerb uses all there is of a store, on Redis' own clock, and returns what was refused.
func everyVerb(t testing.TB, config Config) error {
	t.Helper()
	config.KeyPrefix = "quotad:" + rand.Text() + ":"
	config.Deadline = hanging // on a busy machine too
	s, err := openStore(config, noQuiet())
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), hanging)
	defer cancel()
	if err := useScripts(ctx, s); err != nil {
		return err
	}
	if _, err := s.Health(ctx); err != nil {
		return err
	}
	return useClients(ctx, s)
}

// useClients has many subjects, which a Cluster spreads, ask for what fits and for more.
func useClients(ctx context.Context, s *Store) error {
	for _, algorithm := range []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter} {
		c := hourly(algorithm)
		service := clientlimit.NewService(nil)
		if err := service.SetClients(s, "", []*clientlimit.Clients{c}); err != nil {
			return err
		}
		for i := range 10 {
			for _, count := range []quota.Units{2, 3, 1} {
				d, err := service.Acquire(ctx, "public", clientlimit.Request{Subject: strconv.Itoa(i), Count: count})
				if err != nil || d.Granted() != (count > 1) {
					return errors.Join(err, fmt.Errorf("%d more of 5 got %q", count, d.Reason))
				}
			}
		}
		if _, err := service.Reset(ctx, "public", "0"); err != nil {
			return err
		}
		if u, _, _, err := service.Usage(ctx, "public", "0"); err != nil || u.Limits[0].Used != 0 {
			return errors.Join(err, errors.New("something is used after a reset"))
		}
	}
	return nil
}

// A connection that is refused has done nothing, and where the port is of another kind, the cure is said.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	withTLS, trusted := redistest.StartTLS(t)
	withPassword := redistest.StartTCP(t, "--requirepass", "open sesame")
	nobody, stranger := trusted.Clone(), trusted.Clone()
	nobody.Certificates, stranger.RootCAs = nil, nil
	for _, test := range []struct {
		name   string
		config Config
		says   string
	}{
		{"no password", Config{Addrs: []string{withPassword.Addr}}, "password_file"},
		{"a wrong password", Config{Addrs: []string{withPassword.Addr}, Password: "sesame"}, "password_file"},
		{"a certificate of an unknown authority", Config{Addrs: []string{withTLS.Addr}, TLS: stranger}, "certificate"},
		// Here connections are made, and break while they declare: the call itself was not sent.
		{"no certificate of one's own", Config{Addrs: []string{withTLS.Addr}, TLS: nobody}, "certificate required"},
		{"no TLS", Config{Addrs: []string{withTLS.Addr}}, "cannot reach redis: "},
		{"a port for TLS", Config{Addrs: []string{withTLS.Addr}}, "set [ledger.redis.tls]"},
		{"TLS where there is none", Config{Addrs: []string{withPassword.Addr}, TLS: trusted}, "remove [ledger.redis.tls]"},
	} {
		s := openAt(t, test.config)
		for begun := time.Now(); ; {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // a reply may never come
			err := put(ctx, s, "a")
			cancel()
			if !errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown) {
				t.Errorf("%s: got %v, want that nothing was done", test.name, err)
			}
			if err != nil && strings.Contains(err.Error(), test.says) {
				break
			}
			if time.Since(begun) > hanging {
				t.Fatalf("%s: got %v, want %q", test.name, err, test.says)
			}
		}
	}
}
