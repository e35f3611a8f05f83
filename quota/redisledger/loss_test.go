package redisledger

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota"
)

// many acquires n single units in calls of a hundred.
func (r *restoring) many(n int) {
	r.Helper()
	one := quota.Ask{Request: quota.Request{Credential: "youtube", Operation: "list", Count: 1}, Charges: []quota.Charge{{Limit: "daily", Units: 1}}}
	for range n / 100 {
		if _, err := r.ledger.Acquire(context.Background(), r.c, slices.Repeat([]quota.Ask{one}, 100)); err != nil {
			r.Fatal(err)
		}
	}
}

func (r *restoring) key(name string) string {
	i := slices.IndexFunc(r.ledger.keys("youtube", newView(r.c).digest), func(key string) bool { return strings.HasSuffix(key, ":"+name) })
	return r.ledger.keys("youtube", newView(r.c).digest)[i]
}

func (r *restoring) evict(name string) {
	r.Helper()
	if err := r.ledger.client.Del(context.Background(), r.key(name)).Err(); err != nil {
		r.Fatal(err)
	}
}

// forget has the last call, of one request, be one whose answer was lost.
func (r *restoring) forget() {
	r.Helper()
	account, err := r.ledger.client.Get(r.Context(), r.key("account")).Result()
	if err != nil {
		r.Fatal(err)
	}
	call := regexp.MustCompile(r.ledger.tag + ` (\S+) `).FindStringSubmatch(account)
	asks := []quota.Ask{{Request: quota.Request{Credential: "youtube", Operation: "list", Count: 1}}}
	r.ledger.account("youtube").unanswered = &unanswered{name: call[1], asks: asks}
}

// An unanswered call is resolved while more has left the windows than one call
// may take out of them.
func TestResolveWhileMuchLeaves(t *testing.T) {
	r := beginRestoring(t)
	r.c.Limits[0].Units = 100_000
	r.many(600)
	r.clock.Add(time.Minute)
	r.granted(1, "")
	r.forget()
	r.clock.Add(59*time.Minute + 30*time.Second)
	r.granted(1, "")
	r.used(1) // what nobody heard of was released
}

func TestHostClockCannotEmptyAWindow(t *testing.T) {
	r := beginRestoring(t)
	r.granted(100, "")
	r.restore(0, quota.Entry{
		ID:        quota.ID{Ms: r.clock.Now().Add(time.Hour).UnixMilli(), Seq: 1 << 20},
		Kind:      quota.KindGrant,
		Operation: "list", Count: 1, Charges: []quota.Charge{{Limit: "daily", Units: 1}},
	})
	if _, d, err := r.ask(99, ""); err != nil || d.Granted() {
		t.Errorf("got %+v, %v; want a denial: 100 of 100 units were spent this instant", d, err)
	}
}

// The log is lost while Redis' clock is behind: what it had granted by the right time
// stays in the window as long as it would have.
func TestLossWhileTheClockIsBehind(t *testing.T) {
	r := beginRestoring(t)
	first := r.granted(100, "")
	granted := r.clock.Now()
	r.clock.Set(granted.Add(-30 * time.Minute))
	r.flush()
	r.restore(0, first)
	r.used(100)
	r.clock.Set(granted.Add(time.Hour - time.Millisecond))
	r.used(100)
	r.clock.Add(time.Millisecond)
	r.used(0)
}

// A replica that lagged behind takes over, and another daemon is granted first.
func TestLaggingReplica(t *testing.T) {
	r, _ := beginTwo(t)
	r.granted(10, "")
	back := r.keep()
	other := r.known()
	r.clock.Add(time.Second)
	r.granted(80, "")
	own := r.known()
	back()
	r.clock.Add(time.Second)
	r.expect(other)
	r.granted(1, "")
	r.expect(own)
	r.lost()
}

func TestCountingNoticesALoss(t *testing.T) {
	r := beginRestoring(t)
	r.granted(100, "")
	r.flush()
	if err := r.ledger.account("youtube").count(t.Context(), r.c); err != nil {
		t.Fatal(err)
	}
	r.lost()
}

func TestOneKeyEvicted(t *testing.T) {
	for _, name := range []string{"account", "log", "settled"} {
		t.Run(name, func(t *testing.T) {
			r := beginRestoring(t)
			first := r.granted(20, "")
			if _, err := r.ledger.Settle(t.Context(), r.c, quota.Settlement{Grant: first.ID, Units: 0}); err != nil {
				t.Fatal(err)
			}
			r.granted(100, "")
			journal := r.journal()
			r.evict(name)
			r.missed()
			r.stage(0, journal...)
			r.used(100)
			r.clock.Add(time.Hour)
			r.used(0)
			r.granted(100, "")
		})
	}
}

func TestRestoreKeepsCorrections(t *testing.T) {
	r := beginRestoring(t)
	first := r.granted(50, "")
	if _, err := r.ledger.Adjust(t.Context(), r.c, quota.Adjustment{Limit: "daily", Units: -30}); err != nil {
		t.Fatal(err)
	}
	r.clock.Add(time.Minute)
	r.restore(0, quota.Entry{
		ID:        quota.ID{Ms: r.clock.Now().UnixMilli(), Seq: 1 << 20},
		Kind:      quota.KindGrant,
		Operation: "list", Count: 1, Charges: []quota.Charge{{Limit: "daily", Units: 1}},
	})
	r.used(21)
	// The server fell back to a copy that has the entry and not its settlement.
	first.Settled, first.SettledTo, first.GivenBack = true, 70, []quota.Charge{{Limit: "daily", Units: 30}}
	r.restore(0, first)
	r.used(41)
}

// A window that is lengthened after its log was trimmed is not taken for complete.
func TestTrimmingIsSaved(t *testing.T) {
	r := beginRestoring(t)
	r.c.Limits[0].Units = 1000
	r.many(400)
	r.clock.Add(30 * time.Minute)
	late := r.granted(2, "")
	r.clock.Add(30 * time.Minute)
	if _, err := r.ledger.Settle(t.Context(), r.c, quota.Settlement{Grant: late.ID}); err != nil {
		t.Fatal(err)
	}
	r.granted(1, "")
	longer := *r.c
	longer.Limits = []quota.Limit{{Name: "daily", Units: 1000, Window: quota.Sliding(24 * time.Hour)}}
	u, err := r.ledger.Usage(t.Context(), &longer)
	if err != nil || u.Limits[0].CatchingUp.IsZero() && u.Limits[0].Used < 400 {
		t.Errorf("%+v, %v; want what was trimmed counted, or known to be missing", u, err)
	}
}

// Denials that must look far back for their time neither fail nor take with them
// what was granted in the same call.
func TestManyFarDenials(t *testing.T) {
	r := beginRestoring(t)
	r.c.Limits[0].Units = 10_000
	r.many(9800)
	r.clock.Add(time.Second)
	asks := []quota.Ask{{Request: quota.Request{Credential: "youtube", Operation: "list", Count: 1}, Charges: []quota.Charge{{Limit: "daily", Units: 1}}}}
	for range 127 {
		asks = append(asks, quota.Ask{Request: quota.Request{Credential: "youtube", Operation: "list", Count: 3000}, Charges: []quota.Charge{{Limit: "daily", Units: 3000}}})
	}
	decisions, err := r.ledger.Acquire(t.Context(), r.c, asks)
	if err != nil || !decisions[0].Granted() {
		t.Fatalf("%v: what fits is not granted", err)
	}
	for _, d := range decisions[1:] {
		if d.Reason != quota.LimitExceeded || d.RetryAfter != time.Hour-time.Second {
			t.Fatalf("got %+v, want a denial until the log leaves", d)
		}
	}
}
