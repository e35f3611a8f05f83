package ledgertest

import (
	"context"
	"testing"
	"time"

	"quotad/quota"
)

// closing closes or opens a limit, and expects whether that changes anything.
func (h *history) closing(k quota.Change, want bool) {
	h.Helper()
	k.Kind, k.Caller = quota.KindClosing, quota.Caller{Job: "trending", Region: "US"}
	if k.Until.IsZero() {
		k.Kind = quota.KindOpening
	}
	changed, err := h.ledger.ChangeLimit(context.Background(), h.c, k)
	if err != nil || changed != want {
		h.Fatalf("got %v, %v from %+v, want %v", changed, err, k, want)
	}
}

// closedBy acquires an operation and expects that a closed limit denies it for so long.
func (h *history) closedBy(operation, limit string, retryAfter time.Duration) quota.Decision {
	h.Helper()
	d := h.acquire(quota.Request{Operation: operation, UseReserve: true})
	if d.Reason != quota.LimitClosed || d.Limit != limit || d.RetryAfter != retryAfter {
		h.Fatalf("got %q by limit %q for %v, want limit_closed by %q for %v", d.Reason, d.Limit, d.RetryAfter, limit, retryAfter)
	}
	if h.agrees(d); d.Remaining() != 0 {
		h.Fatalf("got %d remaining, want 0", d.Remaining())
	}
	return d
}

func closedLimit(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	start := h.clock.Now()
	named := quota.Request{Operation: "search.list", RequestID: "page-1"}
	first := h.acquire(named)
	h.isGrant(first)
	before := h.usage()
	h.closing(quota.Change{Limit: "search", Until: start.Add(20 * time.Minute), Note: "limit 'Search Queries per day'; ,=% of:1"}, true)

	d := h.closedBy("search.list", "search", 20*time.Minute)
	want := quota.Closed{Since: h.newest().At, Until: start.Add(20 * time.Minute), Says: "limit 'Search Queries per day'; ,=% of:1", By: "trending"}
	if d.State().Closed != want {
		t.Errorf("got %+v, want %+v", d.State().Closed, want)
	}
	for i, limit := range h.usage().Limits {
		if limit.Used != before.Limits[i].Used || (limit.Closed == want) != (limit.Name == "search") {
			t.Errorf("got %+v, want what it was, and search closed", limit)
		}
	}
	h.granted("videos.list") // which search does not count
	if again := h.acquire(named); again.GrantID != first.GrantID || !again.Replayed {
		t.Errorf("got %+v for what was granted before, want that grant", again)
	}
	if d := h.peek(h.ask(quota.Request{Operation: "search.list"}).Charges, true); d.Reason != quota.LimitClosed || d.RetryAfter != 20*time.Minute {
		t.Errorf("a peek says %+v, want limit_closed", d)
	}
	h.settle(first, 50) // what happened can be corrected all the same
	h.used(51, 50)

	// Earlier than it is closed until anyway, or not at all: nothing changes.
	h.clock.Add(time.Minute)
	entries := len(h.log(quota.LogQuery{}))
	h.closing(quota.Change{Limit: "search", Until: start.Add(10 * time.Minute)}, false)
	h.closing(quota.Change{Limit: "search", Until: start.Add(20 * time.Minute)}, false)
	h.closing(quota.Change{Limit: "search", Until: start}, false)
	h.closing(quota.Change{Limit: "daily"}, false)
	if got := len(h.log(quota.LogQuery{})); got != entries {
		t.Errorf("got %d entries, want the %d there were", got, entries)
	}
	// Longer: of two that are closed, the one that is closed the longest is named.
	h.closing(quota.Change{Limit: "search", Until: start.Add(30 * time.Minute), Note: "again"}, true)
	h.closing(quota.Change{Limit: "daily", Until: start.Add(5 * time.Minute), Note: "a minute"}, true)
	h.closedBy("videos.list", "daily", 4*time.Minute)
	h.closedBy("search.list", "search", 29*time.Minute)

	h.clock.Set(start.Add(5*time.Minute - tick))
	h.closedBy("videos.list", "daily", tick)
	h.clock.Add(tick)
	h.granted("videos.list")
	h.again()
	h.closedBy("search.list", "search", 25*time.Minute)
	h.closing(quota.Change{Limit: "search", Note: "seen to be open"}, true)
	h.granted("search.list")
	log := h.log(quota.LogQuery{})
	e := log[len(log)-2]
	if e.Body != (quota.Changed{Limit: "search"}) || e.Kind() != quota.KindOpening || e.Region != "US" || e.Note != "seen to be open" || e.By != "trending" {
		t.Errorf("got %+v, want that search was opened, by whom and why", e)
	}
	// The window ends later than the closing: both count.
	h.granted("search.list")
	h.denied("search.list", "search", 55*time.Minute)
	h.closing(quota.Change{Limit: "search", Until: h.clock.Now().Add(time.Minute)}, true)
	h.closedBy("search.list", "search", 55*time.Minute)
	h.closing(quota.Change{Limit: "daily", Until: h.clock.Now().Add(2 * time.Hour)}, true)
	h.closedBy("search.list", "daily", 2*time.Hour)
}

func resetOpens(t *testing.T, harness Harness) {
	h := begin(t, harness, one(10, quota.Sliding(time.Hour)))
	h.granted("ten")
	h.closing(quota.Change{Limit: "daily", Until: h.clock.Now().Add(2 * time.Hour), Note: "gone"}, true)
	h.closedBy("list", "daily", 2*time.Hour)
	h.reset("a new project")
	h.granted("ten")
	h.again()
	h.denied("list", "daily", time.Hour+tick) // the reset took the first µs
}
