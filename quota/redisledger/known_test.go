package redisledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"quotad/quota"
)

// alone is a record of what a host grants on its own now.
func (r *restoring) alone(count quota.Units, id string) quota.Entry {
	request := quota.Request{Credential: "youtube", Operation: "list", Count: count, RequestID: id}
	ask := quota.Ask{Request: request, Charges: []quota.Charge{{Limit: "daily", Units: count}}}
	return quota.NewEntry(ask, quota.ID{Ms: r.clock.Now().UnixMilli(), Seq: 7 << 16})
}

func (r *restoring) bookBack(records ...quota.Entry) {
	r.Helper()
	var pending []offlineGrant
	for _, e := range records {
		pending = append(pending, offlineGrant{id: e.ID, text: textOf(e), settledTo: "-", at: time.Now().Add(e.At.Sub(r.clock.Now()))})
	}
	if err := r.ledger.account("youtube").bookNow(r.Context(), r.c, pending); err != nil {
		r.Fatal(err)
	}
}

// A request id makes an entry known only while it stands for the same.
func TestBookedUnderAnotherRequestsID(t *testing.T) {
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

// After a loss the same id may be drawn again for something else.
func TestIDDrawnAgain(t *testing.T) {
	a, b := beginTwo(t)
	lost := a.granted(10, "")
	a.flush()
	b.granted(1, "")
	a.lost()
	a.restore(0, lost)
	a.restore(0, lost)
	a.used(11)
}

func TestAccountEvictedAlone(t *testing.T) {
	t.Run("before older records are put back", func(t *testing.T) {
		r := beginRestoring(t)
		older := r.alone(10, "")
		r.clock.Add(time.Millisecond)
		newer := r.granted(20, "")
		r.evict("account")
		r.lost()
		r.restore(0, older, newer)
		r.used(30)
	})
	t.Run("unnoticed, with settlements", func(t *testing.T) {
		r := beginRestoring(t)
		r.c.Limits[0].Units = 1000
		for range 200 {
			if _, err := r.ledger.Settle(t.Context(), r.c, quota.Settlement{Grant: r.granted(1, "").ID}); err != nil {
				t.Fatal(err)
			}
		}
		r.evict("account")
		r.expect(position{})
		r.used(0)
		r.clock.Add(time.Hour)
		r.many(300) // trims the settlements
		r.used(300)
	})
}

// What a host granted alone is put back before what the ledger granted later, when the
// clock of both was ahead: it must not leave the window at once.
func TestHostsGrantWhileTheClockIsBehind(t *testing.T) {
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

// The bounds of a period are computed on Redis' time as it was last heard, perhaps
// from a log that is ahead.
func TestRestoreInAnotherPeriod(t *testing.T) {
	r := beginRestoring(t)
	r.c.Limits[0].Window = quota.Calendar(quota.Day, time.UTC)
	record := r.granted(10, "")
	r.flush()
	r.lost()
	r.ledger.account("youtube").skew += 24 * time.Hour
	r.restore(0, record)
	r.used(10)
}

// More leaves the windows during a rest than one call takes out of them. A daemon with
// an unanswered call, which it settles first, must end the rest all the same.
func TestMuchLeavesDuringARest(t *testing.T) {
	r := beginRestoring(t)
	r.c.Limits[0].Units = 10_000
	r.many(2000)
	r.clock.Add(time.Minute)
	r.granted(1, "")
	r.forget()
	r.restore(time.Millisecond)
	r.clock.Add(59*time.Minute + 30*time.Second)
	for err := quota.ErrRecovering; errors.Is(err, quota.ErrRecovering); {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err = r.ledger.account("youtube").check(ctx, r.c)
		cancel()
		if err != nil && !errors.Is(err, quota.ErrRecovering) {
			t.Fatalf("got %v, want that the rest ends", err)
		}
	}
	r.used(0)
}
