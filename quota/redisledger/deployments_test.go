package redisledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
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

// A Cluster is used as one, also by one of its addresses, for logs and for clients, which it spreads.
func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
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
	for _, node := range nodes {
		if err := everyVerb(t, Config{Addrs: []string{node.Addr}}); err != nil {
			t.Error(err)
		}
		c := openClients(t, node.Addr, hanging, hourly(clientlimit.Counter))
		for i := range 10 {
			takeSoon(t, c, fmt.Sprint(node.Addr, i), 0)
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
	must(t, err)
	if want := "ACL SETUSER quotad on >PASSWORD " + leastRights + "\n"; !strings.Contains(string(page), want) {
		t.Errorf("the page does not say %q", want)
	}
	server.Order(t, "ACL LOG RESET")
	config := withRights(t, server, leastRights)
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
	_, err := openAt(t, config).Check(t.Context(), true)
	return err
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
		redistest.Until(t, test.name+" is said", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // a reply may never come
			defer cancel()
			err := put(ctx, s, "a")
			if !errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown) {
				t.Errorf("%s: got %v, want that nothing was done", test.name, err)
			}
			return err != nil && strings.Contains(err.Error(), test.says)
		})
	}
}
