package redisledger

import (
	"errors"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
)

// A request id makes an entry known only while it stands for the same.
func TestBookedUnderAnotherRequestsID(t *testing.T) {
	t.Parallel()
	t.Run("in a later window", func(t *testing.T) {
		r := beginRestoring(t)
		r.granted(10, "page-1")
		r.clock.Add(time.Hour)
		r.used(0)
		again := r.alone(10, "page-1")
		r.bookBack(again)
		r.bookBack(again)
		r.used(10)
	})
	t.Run("of another count", func(t *testing.T) {
		r := beginRestoring(t)
		r.granted(1, "page-1")
		other := r.alone(10, "page-1")
		r.bookBack(other)
		r.bookBack(other)
		r.used(11)
	})
}

// What was granted alone goes into the log that is known. One that was lost since is
// not begun anew with it: others' grants would be missing.
func TestNothingIsBookedIntoALostLog(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := openAt(t, Config{Addrs: []string{server.Addr}, Daemon: "a"})
	acquireOne(t, l, hundred(), "")
	server.Order(t, "FLUSHALL")
	alone := offlineGrant{id: quota.ID{Ms: time.Now().UnixMilli(), Seq: 1 << 16}, text: grantText(ask("list", ""), "-"), settledTo: "-"}
	if err := l.account("one").bookNow(t.Context(), hundred(), []offlineGrant{alone}); !errors.Is(err, quota.ErrLost) {
		t.Errorf("got %v, want that the log was lost", err)
	}
	if n := server.Do(t, "DBSIZE"); n != int64(0) {
		t.Errorf("a log was begun: %v keys", n)
	}
}

// While Redis' clock stands still, after a step back, its own ids go on behind those
// that a host drew during an outage. What that host grants next must be booked too.
func TestOutageGrantWhoseIDIsTaken(t *testing.T) {
	t.Parallel()
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	l, _ := harness(t, redistest.Start(t)).Open(t, clock)
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

// The host's clock was far behind while it granted offline, and is right when that is
// replayed: it counts from when it was granted.
func TestOfflineGrantsOfAClockThatWasBehind(t *testing.T) {
	t.Parallel()
	r := beginRestoring(t)
	r.granted(1, "")
	behind := offlineGrant{
		id:   quota.ID{Ms: r.clock.Now().Add(-25 * time.Hour).UnixMilli(), Seq: 7 << 16},
		text: "g,daily=10 list 10 @1 - -", settledTo: "-", at: time.Now(),
	}
	if err := r.ledger.account("youtube").bookNow(t.Context(), r.c, []offlineGrant{behind}); err != nil {
		t.Fatal(err)
	}
	r.used(11)
}

// A request finds Redis away, and is decided without it when Redis has returned: it is booked
// before Redis decides again.
func TestGrantAsTheLedgerReturns(t *testing.T) {
	t.Parallel()
	events := make(chan Event, 100)
	l, err := Open(Config{Addrs: []string{redistest.Start(t).Addr}, Daemon: "a"}, Local{
		Journal: t.TempDir(), Keep: 48 * time.Hour, Deadline: time.Minute, Observe: func(e Event) { events <- e },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c := hundred()
	l.SetCredentials([]*quota.Credential{c}, map[string]Policy{c.Name: {Open: map[string]bool{"list": true}, Units: 5}})
	acquireOne(t, l, c, "")
	decisions, err := l.account(c.Name).decideOffline([]quota.Ask{ask("list", "page-1")}, quota.ErrUnavailable)
	if err != nil || !decisions[0].Outage || !decisions[0].Granted() {
		t.Fatalf("got %+v, %v; want an offline grant", decisions, err)
	}
	for (<-events).Kind != Up {
	}
	if again := acquireOne(t, l, c, "page-1"); !again.Replayed || again.GrantID != decisions[0].GrantID {
		t.Errorf("got %+v, want the grant %s again", again, decisions[0].GrantID)
	}
	u, err := l.Usage(t.Context(), c)
	if err != nil || u.Limits[0].Used != 2 {
		t.Errorf("got %+v, %v; want both grants", u, err)
	}
}
