package redisledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
)

// written counts what was ever written to a server, expiries included.
func written(t testing.TB, server *redistest.Server) string {
	t.Helper()
	_, rest, _ := strings.Cut(server.Do(t, "INFO", "persistence").(string), "rdb_changes_since_last_save:")
	count, _, found := strings.Cut(rest, "\r\n")
	if !found {
		t.Fatal("redis does not tell how much was written")
	}
	return count
}

// digests returns what every key holds, and when it expires.
func digests(t testing.TB, client redis.UniversalClient) string {
	t.Helper()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, key := range keys {
		digest, err1 := client.Do(t.Context(), "DEBUG", "DIGEST-VALUE", key).StringSlice()
		expires, err2 := client.PExpireTime(t.Context(), key).Result()
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		fmt.Fprintln(&all, key, digest, expires)
	}
	return all.String()
}

func TestDenialsWriteNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	config := Config{Addrs: []string{server.Addr}, Daemon: "a"}
	l, client := openAt(t, config), connect(t, config)
	acquire := func(a quota.Ask) quota.Decision {
		t.Helper()
		decisions, err := l.Acquire(t.Context(), hundred(), []quota.Ask{a})
		if err != nil {
			t.Fatal(err)
		}
		return decisions[0]
	}
	for i := range 10 {
		if d := acquire(ask("ten", fmt.Sprint(i))); !d.Granted() {
			t.Fatalf("got %+v, want a grant", d)
		}
	}
	before, held := written(t, server), digests(t, client)
	for range 20 {
		for want, a := range map[quota.Reason]quota.Ask{
			quota.LimitExceeded:     ask("list", "new"),
			quota.RequestIDConflict: ask("list", "1"),
			"":                      ask("ten", "1"), // granted before
		} {
			if d := acquire(a); d.Reason != want {
				t.Fatalf("got %+v, want the reason %q", d, want)
			}
		}
		if d, err := l.Peek(t.Context(), hundred(), nil, ask("ten", "").Charges, false); err != nil || d.Granted() {
			t.Fatalf("got %+v, %v; want a denial", d, err)
		}
		if _, err := l.Usage(t.Context(), hundred()); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Log(t.Context(), hundred(), quota.LogQuery{Most: 20}); err != nil {
			t.Fatal(err)
		}
	}
	if after := digests(t, client); after != held {
		t.Errorf("before:\n%s\nafter denials:\n%s", held, after)
	}
	if after := written(t, server); after != before {
		t.Errorf("%s writes before, %s after denials", before, after)
	}
	client.Del(t.Context(), l.keys("one", "")[3])
	if after := written(t, server); after == before {
		t.Error("a deleted key counts as no write: this test cannot fail")
	}
}

// An expiryWatch is a ledger whose keys' expiry is watched while time passes on a clock
// that the test sets. Redis' own stands still next to it.
type expiryWatch struct {
	*testing.T
	clock   *ledgertest.Clock
	ledger  *Ledger
	client  redis.UniversalClient
	c       *quota.Credential
	expires map[string]time.Time // by that clock
}

// marked is an expiry that no script sets.
const marked = 1000 * 24 * time.Hour

// mark gives every key an expiry by which it is seen whether a script sets another.
func (v *expiryWatch) mark() {
	for _, key := range v.ledger.keys(v.c.Name, newView(v.c).digest) {
		v.client.PExpire(context.Background(), key, marked)
	}
}

// see takes in which keys were given an expiry since they were marked, and expects
// every key to outlive what was granted until now.
func (v *expiryWatch) see(outlive time.Time) {
	v.Helper()
	for _, key := range v.ledger.keys(v.c.Name, newView(v.c).digest) {
		left, err := v.client.PTTL(context.Background(), key).Result()
		if err != nil {
			v.Fatal(err)
		}
		switch {
		case left == -2: // does not exist
			delete(v.expires, key)
			continue
		case left < 0:
			v.Fatalf("%s never expires", key)
		case left < marked-24*time.Hour:
			v.expires[key] = v.clock.Now().Add(left)
		}
		if v.expires[key].Before(outlive) {
			v.Fatalf("%s expires at %v, but is needed until %v", key, v.expires[key], outlive)
		}
	}
}

func TestKeysOutliveTheirWindow(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	for _, window := range []quota.Window{
		quota.Sliding(300 * time.Millisecond), quota.Sliding(time.Hour), quota.Sliding(30 * 24 * time.Hour),
		quota.Calendar(quota.Hour, zone), quota.Calendar(quota.Day, zone), quota.Calendar(quota.Month, zone),
	} {
		t.Run(window.String(), func(t *testing.T) {
			v := newExpiryWatch(t, server, window)
			steps, refreshed := rand.New(rand.NewPCG(1, 2)), 0
			for i := range 400 {
				v.clock.Add(time.Duration(steps.Int64N(int64(window.Span() / 20))))
				v.mark()
				before := v.expires[v.ledger.keys("one", "")[1]]
				d := v.acquire(ask("list", fmt.Sprint(i)))
				outlive := v.clock.Now().Add(window.Length)
				if _, end := window.Bounds(v.clock.Now()); !end.IsZero() {
					outlive = end
				}
				v.see(outlive)
				if v.expires[v.ledger.keys("one", "")[1]] != before {
					refreshed++
				}
				if i%7 == 0 {
					v.mark()
					v.settle(d)
					v.see(outlive)
				}
			}
			if refreshed < 5 || refreshed > 350 {
				t.Errorf("of 400 grants %d set the expiry anew, want some, and far from all", refreshed)
			}
		})
	}
}

// A window is made longer, and only denials follow: nothing that it counts now expires.
func TestKeysOutliveALongerWindow(t *testing.T) {
	t.Parallel()
	v := newExpiryWatch(t, redistest.Start(t), quota.Sliding(time.Hour))
	v.c.Limits[0].Units = 100
	for range 10 {
		v.acquire(ask("ten", ""))
	}
	outlive := v.clock.Now().Add(24 * time.Hour)
	v.clock.Add(10 * time.Minute)
	longer := *v.c
	longer.Limits = []quota.Limit{v.c.Limits[0]}
	longer.Limits[0].Window = quota.Sliding(24 * time.Hour)
	v.c = &longer
	v.mark()
	for range 3 {
		decisions, err := v.ledger.Acquire(t.Context(), v.c, []quota.Ask{ask("ten", "")})
		if err != nil || decisions[0].Reason != quota.LimitExceeded {
			t.Fatalf("got %+v, %v; want a denial", decisions, err)
		}
	}
	v.see(outlive)
	if len(v.expires) < 3 {
		t.Errorf("the expiry of only %d keys was set", len(v.expires))
	}
}

func newExpiryWatch(t *testing.T, server *redistest.Server, window quota.Window) *expiryWatch {
	t.Helper()
	v := &expiryWatch{T: t, clock: ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)), c: hundred(), expires: make(map[string]time.Time)}
	opened, _ := harness(t, server).Open(t, v.clock)
	t.Cleanup(func() { opened.Close() })
	v.ledger = opened.(*Ledger)
	v.client = connect(t, Config{Addrs: []string{server.Addr}})
	v.c.Limits[0].Window, v.c.Limits[0].Units = window, quota.MaxUnits
	return v
}

func (v *expiryWatch) acquire(a quota.Ask) quota.Decision {
	v.Helper()
	decisions, err := v.ledger.Acquire(v.Context(), v.c, []quota.Ask{a})
	if err != nil || !decisions[0].Granted() {
		v.Fatalf("got %+v, %v; want a grant", decisions, err)
	}
	return decisions[0]
}

func (v *expiryWatch) settle(d quota.Decision) {
	v.Helper()
	_, id, err := quota.ParseGrantID(d.GrantID)
	if err != nil {
		v.Fatal(err)
	}
	if _, err := v.ledger.Settle(v.Context(), v.c, quota.Settlement{Grant: id}); err != nil {
		v.Fatal(err)
	}
}

// On Redis' own clock, with nothing replaced.
func TestIdleKeysVanish(t *testing.T) {
	t.Parallel()
	const window, grace = 300 * time.Millisecond, time.Minute
	server := redistest.Start(t)
	config := Config{Addrs: []string{server.Addr}, Daemon: "a"}
	l, client := openAt(t, config), connect(t, config)
	c := hundred()
	c.Limits[0].Window = quota.Sliding(window)
	first := acquireOne(t, l, c, "a")
	for _, key := range l.keys("one", "")[:2] {
		left, err := client.PTTL(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if left < window || left > 2*window+grace {
			t.Errorf("%s expires in %v, want a little more than the window and a minute's grace", key, left)
		}
	}
	for _, key := range l.keys("one", newView(c).digest) { // the minute passes
		if left, err := client.PTTL(t.Context(), key).Result(); err == nil && left > grace {
			client.PExpire(t.Context(), key, left-grace)
		}
	}
	deadline := time.After(hanging)
	for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
		if n, err := client.DBSize(t.Context()).Result(); err != nil {
			t.Fatal(err)
		} else if n == 0 {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("the keys are still there:\n%s", digests(t, client))
		default:
		}
	}
	// What has expired was not lost: the ledger goes on, with an id of its own.
	if again := acquireOne(t, l, c, "a"); again.Replayed || again.GrantID == first.GrantID {
		t.Errorf("got %+v after %+v, want a new grant", again, first)
	}
}

func acquireOne(t testing.TB, l *Ledger, c *quota.Credential, id string) quota.Decision {
	t.Helper()
	decisions, err := l.Acquire(t.Context(), c, []quota.Ask{ask("list", id)})
	if err != nil || !decisions[0].Granted() {
		t.Fatalf("got %+v, %v; want a grant", decisions, err)
	}
	return decisions[0]
}
