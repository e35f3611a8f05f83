package redisledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
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
	{"another database", func(t *testing.T) Config {
		return Config{Addrs: []string{redistest.Start(t).Addr}, DB: 5}
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
	{"the least rights in another database", func(t *testing.T) Config {
		config := withRights(t, redistest.Start(t), leastRights+" "+databaseRights)
		config.DB = 5
		return config
	}},
}

func TestDeployments(t *testing.T) {
	t.Parallel()
	for _, deployment := range deployments {
		t.Run(deployment.name, func(t *testing.T) {
			t.Parallel()
			config := deployment.start(t)
			ledgertest.Run(t, harnessOf(t, config))
			if err := everyVerb(t, config); err != nil {
				t.Error(err)
			}
		})
	}
}

// The suite's credentials, whose time is kept beside them.
var suiteClocks = []string{"{one}:clock", "{other}:clock", "{youtube}:clock", "{current}:clock", "{monthly}:clock"}

func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	config := Config{Addrs: []string{nodes[0].Addr, nodes[1].Addr}}
	ledgertest.Run(t, opener{config: config, clocks: suiteClocks, scripts: onClock(t, clockOfCredential)}.harness())
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
	t.Run("client limits", func(t *testing.T) {
		config := Config{Addrs: config.Addrs}
		clusterClientsWithoutReply(t, config)
		clusterClientsOfFrozenNode(t, config, nodes[1])
	})
}

// everyVerb uses all there is of a ledger, on Redis' own clock, and returns what
// was refused.
func everyVerb(t testing.TB, config Config) error {
	t.Helper()
	config.Daemon, config.KeyPrefix = "every", "quotad:"+t.Name()+":every:"
	l := patient(openAt(t, config))
	ctx, cancel := context.WithTimeout(context.Background(), hanging)
	defer cancel()
	for _, use := range []func(context.Context, *Ledger) error{useLog, useBriefWindow, useCorrections, useHosts, useClients} {
		if err := use(ctx, l); err != nil {
			return err
		}
	}
	if h := l.Health(ctx); !h.Reachable {
		return errors.New(h.State)
	}
	return nil
}

// useLog fills a day, asks for more, and reads the log both ways.
func useLog(ctx context.Context, l *Ledger) error {
	c := hundred()
	for n := range 9 {
		asks := []quota.Ask{ask("ten", ""), ask("list", "a")}
		if n == 8 {
			asks = asks[:1] // plain
		}
		if _, err := l.Acquire(ctx, c, asks); err != nil {
			return err
		}
	}
	decisions, err := l.Acquire(ctx, c, []quota.Ask{ask("ten", "")})
	if err != nil {
		return err
	}
	if decisions[0].Reason != quota.LimitExceeded {
		return errors.New("a hundred and one units of a hundred were granted")
	}
	if _, err := l.Usage(ctx, c); err != nil {
		return err
	}
	for _, newest := range []bool{false, true} {
		page, err := l.Log(ctx, c, quota.LogQuery{Most: 5, Newest: newest})
		if err != nil {
			return err
		}
		if len(page.Entries) != 5 {
			return errors.New("the log lacks entries")
		}
	}
	return nil
}

// useBriefWindow grants so much that leaves its window at once that the log is
// trimmed.
func useBriefWindow(ctx context.Context, l *Ledger) error {
	c := hundred()
	c.Name, c.Limits[0].Window, c.Limits[0].Units = "brief", quota.Sliding(time.Millisecond), quota.MaxUnits
	for i := range 4 {
		asks := make([]quota.Ask, 64)
		for j := range asks {
			asks[j] = ask("list", string(rune('a'+i))+string(rune('a'+j)))
		}
		if _, err := l.Acquire(ctx, c, asks); err != nil {
			return err
		}
	}
	return nil
}

func useCorrections(ctx context.Context, l *Ledger) error {
	c := hundred()
	decisions, err := l.Acquire(ctx, c, []quota.Ask{ask("list", "a")})
	if err != nil {
		return err
	}
	_, id, err := quota.ParseGrantID(decisions[0].GrantID)
	if err != nil {
		return err
	}
	if _, err := l.Settle(ctx, c, quota.Settlement{Grant: id}); err != nil {
		return err
	}
	if _, err := l.Adjust(ctx, c, quota.Adjustment{Limit: "daily", Units: 1}); err != nil {
		return err
	}
	a := l.account(c.Name)
	if err := a.check(ctx, c); err != nil {
		return err
	}
	if _, err := l.Adjust(ctx, c, quota.Adjustment{Limit: "daily", Units: -1}); err != nil {
		return err
	}
	alone := offlineGrant{id: quota.ID{Ms: time.Now().UnixMilli(), Seq: l.seq}, text: grantText(ask("list", "alone"), "-"), settledTo: "-"}
	if err := a.bookNow(ctx, c, []offlineGrant{alone}); err != nil {
		return err
	}
	l.quietTime = 0
	if _, err := a.stage(ctx, c, nil, true, []any{quota.ID{Ms: time.Now().UnixMilli()}.String(), grantText(ask("list", "restored"), "-")}); err != nil {
		return err
	}
	if err := a.check(ctx, c); err != nil {
		return err
	}
	return l.Reset(ctx, c, quota.Caller{}, "")
}

func useHosts(ctx context.Context, l *Ledger) error {
	f := l.Hosts()
	slot := time.Now()
	for _, claimant := range []string{"host", "other"} {
		if _, _, err := f.Claim(ctx, "job", claimant, slot, time.Hour, ""); err != nil {
			return err
		}
	}
	if _, _, _, err := f.Lock(ctx, "job", "host", time.Minute, "", slot); err != nil {
		return err
	}
	if _, err := f.Append(ctx, "job", "host", time.Minute, map[string]string{"cursor": "US"}, []string{"a run"}); err != nil {
		return err
	}
	_, _, _, _, err := f.Load(ctx, "job", "")
	return err
}

// useClients has many subjects, which a Cluster spreads, ask for what fits and for more.
func useClients(ctx context.Context, l *Ledger) error {
	for _, algorithm := range []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter} {
		c := &clientlimit.Clients{Name: "public", Algorithm: algorithm, Limits: []quota.Limit{{Name: "hourly", Units: 5, Window: quota.Sliding(time.Hour)}}}
		var asks []clientlimit.Ask
		for i := range 40 {
			subject := clientlimit.Key("=" + strconv.Itoa(i))
			asks = append(asks, clientlimit.Ask{Subject: subject, Units: 5}, clientlimit.Ask{Subject: subject, Units: 1})
		}
		decisions, err := l.DecideClients(ctx, c, asks)
		if err != nil {
			return err
		}
		for i, d := range decisions {
			if d.Err != nil {
				return d.Err
			}
			if d.Granted() != (i%2 == 0) {
				return fmt.Errorf("ask %d got %+v", i, d)
			}
		}
		if err := l.ResetClient(ctx, c, asks[0].Subject); err != nil {
			return err
		}
		u, err := l.ClientUsage(ctx, c, asks[0].Subject)
		if err != nil {
			return err
		}
		if used := u.Limits[0].Used; used != 0 {
			return fmt.Errorf("%d units are used after a reset", used)
		}
	}
	c := &clientlimit.Clients{Name: "public", Algorithm: clientlimit.Log, Limits: []quota.Limit{{Name: "hourly", Units: 1000, Window: quota.Sliding(time.Hour)}}}
	long := clientlimit.Ask{Subject: "=long", Units: 1}
	if err := l.client.Set(ctx, l.clientKey(c, long.Subject), clientLog(time.Now().UnixMilli(), 500, [3]int{3600, 0, 500}), time.Hour).Err(); err != nil {
		return err
	}
	if _, err := l.DecideClients(ctx, c, []clientlimit.Ask{long}); err != nil {
		return err
	}
	_, err := l.ClientSecret(ctx)
	return err
}

func TestFailover(t *testing.T) {
	t.Parallel()
	w := redistest.StartSentinel(t)
	l := openAt(t, Config{Addrs: []string{w.Sentinel.Addr}, MasterName: w.Name, Daemon: "a"})
	acquire := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Acquire(ctx, hundred(), []quota.Ask{ask("ten", "")})
		return err
	}
	for range 3 {
		if err := acquire(); err != nil {
			t.Fatal(err)
		}
	}
	w.Synced(t)
	w.Master.Kill()
	begun := time.Now()
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		err := acquire()
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
		want   error
	}{
		{"no password", Config{Addrs: []string{withPassword.Addr}}, quota.ErrUnavailable},
		{"a wrong password", Config{Addrs: []string{withPassword.Addr}, Password: "sesame"}, quota.ErrUnavailable},
		{"a certificate of an unknown authority", Config{Addrs: []string{withTLS.Addr}, TLS: stranger}, quota.ErrUnavailable},
		// Here connections are made, and break: as far as the ledger can tell
		// a call may have been sent.
		{"no certificate of one's own", Config{Addrs: []string{withTLS.Addr}, TLS: nobody}, quota.ErrOutcomeUnknown},
		{"no TLS", Config{Addrs: []string{withTLS.Addr}}, quota.ErrOutcomeUnknown},
		{"TLS where there is none", Config{Addrs: []string{withPassword.Addr}, TLS: trusted}, quota.ErrOutcomeUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.config.Daemon = "a"
			l := openAt(t, test.config)
			ctx := t.Context() // what is known to be in vain ends at once
			if test.want == quota.ErrOutcomeUnknown {
				ctx = short(t)
			}
			if _, err := l.Acquire(ctx, hundred(), []quota.Ask{ask("list", "")}); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if h := l.Health(short(t)); h.Reachable {
				t.Errorf("got %+v, want it unreachable", h)
			}
		})
	}
}
