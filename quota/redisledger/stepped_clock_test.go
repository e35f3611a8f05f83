package redisledger

import (
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

// The scripts as they run in production, on a Redis whose host's clock is set.
func TestSteppedClock(t *testing.T) {
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
