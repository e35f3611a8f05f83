package redisledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

func TestRestoreKeepsTimesAndIDs(t *testing.T) {
	t.Parallel()
	r := beginRestoring(t)
	first := r.granted(30, "")
	r.clock.Add(20 * time.Minute)
	second := r.granted(40, "page-1")
	r.flush()
	r.lost()
	r.restore(0, first, second)
	r.restore(0, first, second) // once more changes nothing
	r.used(70)
	if _, d, err := r.ask(40, "page-1"); err != nil || !d.Replayed || d.GrantID != quota.GrantID("youtube", second.ID) {
		t.Errorf("got %+v, %v; want the grant of before the loss again", d, err)
	}
	_, d, err := r.ask(60, "")
	if err != nil || d.RetryAfter != 40*time.Minute {
		t.Errorf("got %+v, %v; want a denial until the first leaves, in 40 min", d, err)
	}
	r.clock.Add(40 * time.Minute)
	r.used(40)
}

func TestRestoreBehindItsPlace(t *testing.T) {
	t.Parallel()
	r := beginRestoring(t)
	r.c.Limits[0].Units = 1000
	early := r.granted(30, "early")
	r.clock.Add(20 * time.Minute)
	late := r.granted(40, "")
	r.flush()
	// Another daemon puts the later one back first: there is no place before it.
	r.restore(0, late)
	r.used(40)
	r.restore(0, early)
	r.restore(0, early)
	r.used(70)
	page, err := r.ledger.Log(context.Background(), r.c, quota.LogQuery{Most: 10})
	if err != nil || len(page.Entries) != 2 {
		t.Fatalf("%+v, %v; want two entries", page, err)
	}
	if at := page.Entries[1].At; !at.Equal(early.ID.Time()) {
		t.Errorf("the log says %v, want the time of the grant, %v", at, early.ID.Time())
	}
	// It counts longer than it had to, never shorter, and is still found by its id.
	d, err := r.ledger.Settle(context.Background(), r.c, quota.Settlement{Grant: early.ID, Units: 10})
	if err != nil || d.Reason != "" {
		t.Errorf("got %+v, %v; want it settled", d, err)
	}
	r.used(50)
	r.clock.Add(time.Hour)
	r.used(0)
	r.many(200)
	r.clock.Add(time.Hour)
	r.many(100) // trims the log
	// The field - is always there.
	if n, err := r.ledger.client.HLen(t.Context(), r.key("requests")).Result(); err != nil || n != 1 {
		t.Errorf("%d names of entries are kept that have left, %v", n-1, err)
	}
}

// The bounds of a period are computed on Redis' time as it was last heard, perhaps
// from a log that is ahead.
func TestRestoreInAnotherPeriod(t *testing.T) {
	t.Parallel()
	r := beginRestoring(t)
	r.c.Limits[0].Window = quota.Calendar(quota.Day, time.UTC)
	record := r.granted(10, "")
	r.flush()
	r.lost()
	r.ledger.account("youtube").skew += 24 * time.Hour
	r.restore(0, record)
	r.used(10)
}

func TestRestoreKeepsCorrections(t *testing.T) {
	t.Parallel()
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

// After a loss the same id may be drawn again for something else.
func TestIDDrawnAgain(t *testing.T) {
	t.Parallel()
	a, b := beginTwo(t)
	lost := a.granted(10, "")
	a.flush()
	b.granted(1, "")
	a.lost()
	a.restore(0, lost)
	a.restore(0, lost)
	a.used(11)
}

// What is broken off is begun again, however much of it is there.
func TestRestoreThatBreaksOff(t *testing.T) {
	t.Parallel()
	r := newProxied(t, redistest.Start(t))
	records := r.loseMany()
	calls := 0
	r.proxy.Disturb(func(command []string) redistest.Fault {
		if redistest.IsScript(command) {
			if calls++; calls > 1 {
				return redistest.CutBefore
			}
		}
		return redistest.Pass
	})
	if err := putBack(short(t), r.ledger, r.c, 0, time.Now(), records...); err == nil {
		t.Fatal("half a restore succeeds")
	}
	r.proxy.Disturb(func([]string) redistest.Fault { return redistest.Pass })
	if err := r.ledger.account(r.c.Name).check(t.Context(), r.c); !errors.Is(err, quota.ErrLost) {
		t.Errorf("got %v, want that a record is missing", err)
	}
}

// A log that is lost between two calls of a restore lacks what the first one put back.
func TestLossDuringARestore(t *testing.T) {
	t.Parallel()
	r := newProxied(t, redistest.Start(t))
	records := r.loseMany()
	calls := 0
	r.proxy.Disturb(func(command []string) redistest.Fault {
		if redistest.IsScript(command) {
			if calls++; calls == 2 {
				r.server.Order(t, "FLUSHALL")
			}
		}
		return redistest.Pass
	})
	if err := putBack(t.Context(), r.ledger, r.c, time.Minute, time.Now(), records...); !errors.Is(err, quota.ErrLost) {
		t.Fatalf("got %v, want that the log was lost", err)
	}
	if err := putBack(t.Context(), r.ledger, r.c, 0, time.Now(), records...); err != nil {
		t.Fatal(err)
	}
	u, err := r.ledger.Usage(t.Context(), r.c)
	if err != nil || u.Limits[0].Used != stageStep+1 {
		t.Errorf("got %+v, %v; want every record once", u, err)
	}
}

// loseMany empties Redis, and returns records that take two calls of a restore.
func (r *proxied) loseMany() []quota.Entry {
	r.Helper()
	var records []quota.Entry
	for i := range stageStep + 1 {
		records = append(records, quota.NewEntry(ask("list", ""), quota.ID{Ms: time.Now().UnixMilli() - 1, Seq: int64(i)}))
	}
	r.must(putBack(r.Context(), r.ledger, r.c, 0, time.Now())) // loads the script
	r.server.Order(r, "FLUSHALL")
	return records
}
