package redisledger

import (
	"strconv"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
)

// A window that is lengthened after its log was trimmed is not taken for complete.
func TestTrimmingIsSaved(t *testing.T) {
	t.Parallel()
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

// A denial may be the call that trims a log: what others read of it is as long as the
// log is then.
func TestDenialThatTrims(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	l, _ := harness(t, redistest.Start(t)).Open(t, clock)
	c := hundred()
	c.Limits[0].Units, c.Limits[0].Window = 200, quota.Sliding(time.Hour)
	acquire := func(operation string, granted bool) quota.Decision {
		t.Helper()
		decisions, err := l.Acquire(t.Context(), c, []quota.Ask{ask(operation, "")})
		if err != nil || decisions[0].Granted() != granted {
			t.Fatalf("got %+v, %v; want a grant: %v", decisions, err, granted)
		}
		return decisions[0]
	}
	first := acquire("list", true)
	for range 160 {
		acquire("list", true)
	}
	_, id, err := quota.ParseGrantID(first.GrantID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Settle(t.Context(), c, quota.Settlement{Grant: id, Units: 2}); err != nil {
		t.Fatal(err)
	}
	clock.Add(time.Hour)
	if _, err := l.Adjust(t.Context(), c, quota.Adjustment{Limit: c.Limits[0].Name, Units: 200}); err != nil {
		t.Fatal(err)
	}
	acquire("list", false)
	u, err := l.Usage(t.Context(), c)
	if err != nil || u.Limits[0].Used != 200 {
		t.Errorf("got %+v, %v; want 200 units used", u, err)
	}
}

// While a limit is counted anew time goes on, and more may leave its window than
// one call takes out. A grant that comes before all is taken out must not keep
// what is left for another window.
func TestGrantWhileEntriesLeave(t *testing.T) {
	t.Parallel()
	const window, tick = 3000, 200
	l := newLongLog(t, redistest.Start(t), window, tick)
	for range 3 {
		u, err := l.ledger.Usage(t.Context(), l.c)
		if err != nil {
			t.Fatal(err)
		}
		counted, err := l.client.XRange(t.Context(), l.ledger.keys(l.c.Name, "")[1], after(u.Now.Add(-window*time.Millisecond)), "+").Result()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := u.Limits[0].Used, len(counted); int(got) != want {
			t.Errorf("%d units are used, but the window holds %d", got, want)
		}
		if err := l.acquire(); err != nil {
			t.Fatal(err)
		}
	}
}

// after is the first id of a log behind a time.
func after(t time.Time) string { return strconv.FormatInt(t.UnixMilli()+1, 10) }

// An unanswered call is resolved while more has left the windows than one call
// may take out of them.
func TestResolveWhileMuchLeaves(t *testing.T) {
	t.Parallel()
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

// Denials that must look far back for their time neither fail nor take with them
// what was granted in the same call.
func TestManyFarDenials(t *testing.T) {
	t.Parallel()
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
