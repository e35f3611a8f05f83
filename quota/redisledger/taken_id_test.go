package redisledger

import (
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
)

// While Redis' clock stands still, after a step back, its own ids go on behind those
// that a host drew during an outage. What that host grants next must be booked too.
func TestOutageGrantWhoseIDIsTaken(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	l, _ := harness(redistest.StartReal(t)).Open(t, clock)
	t.Cleanup(func() { l.Close() })
	ledger := l.(*Ledger)
	alone := func(seq int64) []offlineGrant {
		return []offlineGrant{{id: quota.ID{Ms: clock.Now().UnixMilli(), Seq: seq}, text: grantText(ask("list", ""), "-"), settledTo: "-", at: time.Now()}}
	}
	a := ledger.account("one")
	if err := a.bookNow(t.Context(), hundred(), alone(7<<16)); err != nil {
		t.Fatal(err)
	}
	acquireOne(t, ledger, hundred(), "")
	if err := a.bookNow(t.Context(), hundred(), alone(7<<16+1)); err != nil {
		t.Fatal(err)
	}
	u, err := ledger.Usage(t.Context(), hundred())
	if err != nil {
		t.Fatal(err)
	}
	if got := u.Limits[0].Used; got != 3 {
		t.Errorf("%d units are used, want 3: two were granted alone, one by the ledger", got)
	}
}
