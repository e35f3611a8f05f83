package redisledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"quotad/lua"
	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
	"quotad/quota/slidinglog"
)

// deployments are the ways in which one may meet a Redis, each with what the
// configuration says of it.
var deployments = []struct {
	name  string
	start func(t *testing.T) Config
}{
	{"a Unix socket", func(t *testing.T) Config {
		return Config{Addrs: []string{redistest.Start(t).Addr}}
	}},
	{"a port", func(t *testing.T) Config {
		return Config{Addrs: []string{redistest.StartTCP(t).Addr}}
	}},
	{"a password", func(t *testing.T) Config {
		return Config{Addrs: []string{redistest.Start(t, "--requirepass", "open sesame").Addr}, Password: "open sesame"}
	}},
	{"TLS", func(t *testing.T) Config {
		server, config := redistest.StartTLS(t)
		return Config{Addrs: []string{server.Addr}, TLS: config}
	}},
	{"Sentinel", func(t *testing.T) Config {
		w := redistest.StartSentinel(t)
		return Config{Addrs: []string{w.Sentinel.Addr}, MasterName: w.Name}
	}},
	{"the least rights", func(t *testing.T) Config {
		return withRights(t, redistest.Start(t), leastRights)
	}},
}

func TestDeployments(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	for _, deployment := range deployments {
		t.Run(deployment.name, func(t *testing.T) {
			t.Parallel()
			if err := everyVerb(t, deployment.start(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	config := Config{Addrs: []string{nodes[0].Addr, nodes[1].Addr}}
	if err := everyVerb(t, config); err != nil {
		t.Error(err)
	}
	t.Run("the least rights", func(t *testing.T) {
		allow := func(rights string) {
			for _, node := range nodes {
				config.Username, config.Password = withUser(t, node, rights)
			}
		}
		allow(leastRights)
		if err := everyVerb(t, config); err == nil {
			t.Errorf("nothing was missed without %s", clusterRights)
		}
		allow(leastRights + " " + clusterRights)
		if err := everyVerb(t, config); err != nil {
			t.Error(err)
		}
	})
}

// everyVerb uses all there is of a ledger, on Redis' own clock, and returns what
// was refused.
func everyVerb(t testing.TB, config Config) error {
	t.Helper()
	config.KeyPrefix = "quotad:" + t.Name() + ":every:"
	config.Deadline = hanging // on a busy machine too
	l, store := openAt(t, config, noQuiet())
	ctx, cancel := context.WithTimeout(context.Background(), hanging)
	defer cancel()
	if err := useScripts(ctx, store); err != nil { // says at once what is refused
		return err
	}
	if err := useLog(ctx, l); err != nil {
		return err
	}
	if err := useClients(ctx, store); err != nil {
		return err
	}
	if h := l.Health(ctx); !h.Reachable {
		return errors.New(h.State)
	}
	return nil
}

// takeTen acquires ten units, once the log is no longer quiet: an empty one may have been lost.
func takeTen(ctx context.Context, l *slidinglog.Ledger) error {
	for {
		_, err := l.Acquire(ctx, hundred(), ask("ten"))
		if !errors.Is(err, quota.ErrRecovering) || !quota.Sleep(ctx, time.Millisecond) {
			return err
		}
	}
}

// useLog fills a day, asks for more, and begins another one.
func useLog(ctx context.Context, l *slidinglog.Ledger) error {
	c := hundred()
	for range 10 {
		if err := takeTen(ctx, l); err != nil {
			return err
		}
	}
	d, err := l.Acquire(ctx, c, ask("list"))
	if err != nil {
		return err
	}
	if d.Reason != quota.LimitExceeded {
		return errors.New("a hundred and one units of a hundred were granted")
	}
	return l.Reset(ctx, c, quota.Caller{}, "")
}

// useClients has many subjects, which a Cluster spreads, ask for what fits and for more.
func useClients(ctx context.Context, l *Store) error {
	for _, algorithm := range []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter} {
		c := &clientlimit.Clients{Name: "public", Algorithm: algorithm, Limits: []quota.Limit{{Name: "hourly", Units: 5, Window: quota.Sliding(time.Hour)}}}
		service := clientlimit.NewService(nil)
		if err := service.SetClients(l, "", []*clientlimit.Clients{c}); err != nil {
			return err
		}
		for i := range 40 {
			for n, granted := range []bool{true, true, false} {
				count := []quota.Units{2, 3, 1}[n]
				d, err := service.Acquire(ctx, "public", clientlimit.Request{Subject: strconv.Itoa(i), Count: count})
				if err != nil {
					return err
				}
				if d.Granted() != granted {
					return fmt.Errorf("call %d of %d got %+v", n, i, d)
				}
			}
		}
		if _, err := service.Reset(ctx, "public", "0"); err != nil {
			return err
		}
		u, _, _, err := service.Usage(ctx, "public", "0")
		if err != nil {
			return err
		}
		if used := u.Limits[0].Used; used != 0 {
			return fmt.Errorf("%d units are used after a reset", used)
		}
	}
	return nil
}

func TestFailover(t *testing.T) {
	t.Parallel()
	w := redistest.StartSentinel(t)
	l, _ := openAt(t, Config{Addrs: []string{w.Sentinel.Addr}, MasterName: w.Name}, lua.All(lua.Usual()))
	acquire := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return takeTen(ctx, l)
	}
	for range 3 {
		if err := acquire(hanging); err != nil {
			t.Fatal(err)
		}
	}
	w.Synced(t)
	w.Master.Kill()
	begun := time.Now()
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		err := acquire(time.Second)
		if err == nil {
			break
		}
		if time.Since(begun) > hanging {
			t.Fatalf("nothing is granted since the master is gone: %v", err)
		}
	}
	u, err := l.Usage(t.Context(), hundred())
	if err != nil {
		t.Fatal(err)
	}
	if used := u.Limits[0].Used; used != 40 {
		t.Errorf("%d units are used, want the 30 from before the failover and 10", used)
	}
	t.Logf("it took %v until the replica granted", time.Since(begun))
}

func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	withTLS, trusted := redistest.StartTLS(t)
	withPassword := redistest.StartTCP(t, "--requirepass", "open sesame")
	nobody := trusted.Clone()
	nobody.Certificates = nil
	stranger := trusted.Clone()
	stranger.RootCAs = nil
	for _, test := range []struct {
		name   string
		config Config
	}{
		{"no password", Config{Addrs: []string{withPassword.Addr}}},
		{"a wrong password", Config{Addrs: []string{withPassword.Addr}, Password: "sesame"}},
		{"a certificate of an unknown authority", Config{Addrs: []string{withTLS.Addr}, TLS: stranger}},
		// Here connections are made, and break while they declare: the call itself was not sent.
		{"no certificate of one's own", Config{Addrs: []string{withTLS.Addr}, TLS: nobody}},
		{"no TLS", Config{Addrs: []string{withTLS.Addr}}},
		{"TLS where there is none", Config{Addrs: []string{withPassword.Addr}, TLS: trusted}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := openStoreAt(t, test.config)
			if err := put(short(t), s, "a"); !errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown) {
				t.Errorf("got %v, want that nothing was done", err)
			}
			if _, err := s.Health(short(t)); err == nil {
				t.Error("the store says that it can be reached")
			}
		})
	}
}

// short bounds a call whose reply never comes.
func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}
