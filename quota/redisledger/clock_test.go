package redisledger

import (
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

// The scripts as they run in production, on a Redis whose host's clock is set.
func TestSteppedClock(t *testing.T) {
	t.Parallel()
	clock := redistest.NewClock(t)
	if clock == nil {
		t.Skip("needs a C compiler")
	}
	server := redistest.StartOn(t, clock)
	config := Config{Addrs: []string{server.Addr}, Daemon: "a"}
	l, client := openAt(t, config), connect(t, config)
	acquire := func(want bool) quota.Decision {
		t.Helper()
		decisions, err := l.Acquire(t.Context(), hundred(), []quota.Ask{ask("ten", "")})
		if err != nil || decisions[0].Granted() != want {
			t.Fatalf("got %+v, %v; want a grant: %v", decisions, err, want)
		}
		return decisions[0]
	}
	for range 10 {
		acquire(true)
	}
	acquire(false)
	clock.Step(t, -30*time.Hour)
	if d := acquire(false); d.RetryAfter < 53*time.Hour || d.RetryAfter > 54*time.Hour {
		t.Errorf("after a step back the units come back in %v, want the day and the 30 hours for which the clock stands still", d.RetryAfter)
	}
	clock.Step(t, 30*time.Hour+23*time.Hour+59*time.Minute)
	d := acquire(false)
	clock.Step(t, d.RetryAfter)
	acquire(true)
	clock.Step(t, 48*time.Hour) // longer than the keys live
	if n, err := client.Exists(t.Context(), l.keys("one", newView(hundred()).digest)...).Result(); err != nil || n != 0 {
		t.Errorf("%d keys are left after two days, %v", n, err)
	}
	for range 10 {
		acquire(true)
	}
	acquire(false)
}

func TestHostClockCannotEmptyAWindow(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// What a host granted alone is put back before what the ledger granted later, when the
// clock of both was ahead: it must not leave the window at once.
func TestHostsGrantWhileTheClockIsBehind(t *testing.T) {
	t.Parallel()
	r := beginRestoring(t)
	right := r.clock.Now()
	r.clock.Add(5 * time.Hour)
	alone := r.alone(10, "")
	r.bookBack(alone)
	r.clock.Add(time.Millisecond)
	later := r.granted(20, "")
	r.flush()
	r.clock.Set(right)
	r.lost()
	r.restore(0, alone, later)
	r.used(30)
	ttl, err := r.ledger.client.PTTL(t.Context(), r.key("account")).Result()
	if err != nil || ttl < 6*time.Hour {
		t.Errorf("the keys expire in %v, %v; the newest entry counts for six hours", ttl, err)
	}
}
