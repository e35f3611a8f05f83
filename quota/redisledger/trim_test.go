package redisledger

import (
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
)

// A denial may be the call that trims a log: what others read of it is as long as the
// log is then.
func TestDenialThatTrims(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	l, _ := harness(redistest.StartReal(t)).Open(t, clock)
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
