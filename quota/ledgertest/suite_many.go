package ledgertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"quotad/quota"
)

func everythingLeaves(t *testing.T, harness Harness) {
	h := begin(t, harness, one(3000, quota.Sliding(time.Hour)))
	asks := make([]quota.Ask, 100)
	for i := range asks {
		asks[i] = h.ask(quota.Request{Operation: "list"})
	}
	for range 30 {
		for _, d := range h.acquireAll(asks...) {
			h.isGrant(d)
		}
		h.clock.Add(time.Second)
	}
	h.denied("list", "daily", time.Hour-30*time.Second)
	h.clock.Add(2 * time.Hour)
	h.used(0)
	d := h.acquire(quota.Request{Operation: "list", Count: 3000})
	h.isGrant(d)
	h.denied("list", "daily", time.Hour)
}

func longWalk(t *testing.T, harness Harness) {
	h := begin(t, harness, one(2000, quota.Sliding(time.Hour)))
	asks := make([]quota.Ask, 100)
	for i := range asks {
		asks[i] = h.ask(quota.Request{Operation: "list"})
	}
	for range 20 {
		h.acquireAll(asks...)
		h.clock.Add(time.Second)
	}
	for _, count := range []quota.Units{1, 100, 101, 1450, 1999, 2000} {
		d := h.acquire(quota.Request{Operation: "list", Count: count})
		h.isDenial(d, "daily", time.Hour-20*time.Second+time.Duration((count-1)/100)*time.Second)
	}
}

func manyClients(t *testing.T, harness Harness) {
	h := begin(t, harness, one(500, quota.Sliding(time.Hour)))
	var wg sync.WaitGroup
	var mu sync.Mutex // guards granted
	granted := quota.Units(0)
	for range 16 {
		wg.Go(func() {
			for range 10 {
				decisions, err := h.ledger.Acquire(context.Background(), h.c, []quota.Ask{
					{Request: quota.Request{Operation: "ten", Count: 1}, Charges: []quota.Charge{{Limit: "daily", Units: 10}}},
					{Request: quota.Request{Operation: "list", Count: 1}, Charges: []quota.Charge{{Limit: "daily", Units: 1}}},
				})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for i, d := range decisions {
					if d.Granted() {
						granted += []quota.Units{10, 1}[i]
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if granted > 500 || granted < 491 {
		t.Errorf("%d units were granted of 500", granted)
	}
	h.used(granted)
}

// A request that takes less is granted as many calls as fit its limits at that instant, at
// least one, and debits no more than these.
func atMost(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	calls := func(operation string, count quota.Units, id string) quota.Request {
		return quota.Request{Operation: operation, Count: count, AtMost: true, RequestID: id, Caller: quota.Caller{UID: 7}}
	}
	takes := func(d quota.Decision, count, units quota.Units) {
		t.Helper()
		h.isGrant(d)
		if d.Count != count || d.Units != units {
			t.Errorf("got %d calls for %d units, want %d for %d", d.Count, d.Units, count, units)
		}
	}
	takes(h.acquire(calls("search.list", 2, "")), 2, 200) // all of them fit
	first := h.acquire(calls("search.list", 9, "a"))
	takes(first, 1, 100)
	if len(first.Limits) != 2 || first.Limits[1].Used != 300 || first.Limits[1].Cost != 100 || first.Remaining() != 0 {
		t.Errorf("got %+v, want a full search limit", first.Limits)
	}
	h.used(300, 300)
	again := h.acquire(calls("search.list", 9, "a"))
	takes(again, 1, 100)
	if !again.Replayed || again.GrantID != first.GrantID {
		t.Errorf("got %+v, want the grant of the first request", again)
	}
	if d := h.acquire(quota.Request{Operation: "search.list", Count: 9, RequestID: "a", Caller: quota.Caller{UID: 7}}); d.Reason != quota.RequestIDConflict {
		t.Errorf("got %+v, want a conflict: nine were never granted", d)
	}
	d := h.acquire(calls("search.list", 9, ""))
	h.isDenial(d, "search", time.Hour)
	if d.Units != 100 {
		t.Errorf("a denial is about %d units, want the 100 of one call", d.Units)
	}

	// In one batch each takes what the one before has left; the log has what was granted.
	got := h.acquireAll(h.ask(calls("videos.insert", 5, "")), h.ask(calls("videos.list", 1000, "b")), h.ask(calls("videos.list", 7, "")))
	takes(got[0], 1, 400)
	takes(got[1], 300, 300)
	h.isDenial(got[2], "daily", 24*time.Hour)
	h.used(1000, 300)
	h.again()
	page := h.log(quota.LogQuery{Newest: true, Max: 1})
	e := page.Entries[0]
	if g, _ := e.Grant(); g.Operation != "videos.list" || g.Count != 300 || len(e.Charges) != 1 || e.Charges[0].Units != 300 {
		t.Errorf("got %+v, want 300 calls", e)
	}
	h.settle(got[1], 100)
	h.used(800, 300)
	takes(h.acquire(calls("videos.list", 1000, "c")), 200, 200)

	// A limit that is new counts what was granted.
	h.c.Limits = append(h.c.Limits, quota.Limit{Name: "videos", Units: 500, Window: quota.Sliding(24 * time.Hour), Only: []string{"videos.list"}})
	h.used(1000, 300, 300)
	h.clock.Add(24 * time.Hour)
	takes(h.acquire(calls("videos.list", 1000, "")), 500, 500)
}
