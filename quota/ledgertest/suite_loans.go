package ledgertest

import (
	"context"
	"testing"
	"time"

	"quotad/quota"
)

// lend makes a limit higher, or ends its loans, and expects whether that changes anything.
func (h *history) lend(l quota.Change, want bool) {
	h.Helper()
	l.Kind, l.Caller = quota.KindLoan, quota.Caller{UID: 0}
	changed, err := h.ledger.ChangeLimit(context.Background(), h.c, l)
	if err != nil || changed != want {
		h.Fatalf("got %v, %v from %+v, want %v", changed, err, l, want)
	}
}

// lent expects the sum of a limit's loans, and when the first of them ends.
func (h *history) lent(limit string, units quota.Units, until time.Time) {
	h.Helper()
	s := h.usage().Limits[h.c.Index(limit)]
	if s.LentUnits() != units || !s.LentUntil().Equal(until) {
		h.Fatalf("limit %q is lent %d until %v, want %d until %v: %+v", limit, s.LentUnits(), s.LentUntil(), units, until, s.Lent)
	}
}

func loan(t *testing.T, harness Harness) {
	c := one(100, quota.Sliding(time.Hour))
	c.Limits[0].Reserve = 20
	h := begin(t, harness, c)
	start := h.clock.Now()
	h.granted("most")
	h.granted("ten")
	h.clock.Add(10 * time.Minute)
	h.denied("ten", "daily", 50*time.Minute)
	until := start.Add(30 * time.Minute)
	h.lend(quota.Change{Limit: "daily", Units: 50, Until: until, Note: "for the demo"}, true)
	want := quota.Lent{Units: 50, Since: h.clock.Now(), Until: until, Note: "for the demo", By: "@0"}
	s := h.usage().Limits[0]
	if len(s.Lent) != 1 || s.Lent[0] != want || s.Units != 100 || s.Total() != 150 || s.Budget(false) != 130 || s.Remaining() != 50 {
		t.Errorf("got %+v with %d remaining, want %+v and the reserve of before", s, s.Remaining(), want)
	}
	page := h.log(quota.LogQuery{Newest: true, Max: 1})
	if e := page.Entries[0]; e.Body != (quota.Changed{Change: quota.KindLoan, Limit: "daily", Units: 50, Until: until}) || e.Note != want.Note || e.By != want.By || !e.ID.Time().Equal(want.Since) {
		t.Errorf("got %+v, want the loan", e)
	}

	h.clock.Set(until.Add(-tick))
	d := h.granted("ten")
	if d.Limits[0].Remaining() != 40 || d.Limits[0].LentUnits() != 50 {
		t.Errorf("got %+v, want 40 remaining of the loan", d.Limits[0])
	}
	h.again()
	h.lent("daily", 50, until)
	h.granted("ten")
	// One tick later it is over, and what was granted still counts.
	h.clock.Add(tick)
	h.lent("daily", 0, time.Time{})
	h.used(100)
	h.denied("list", "daily", 30*time.Minute)
	h.denied("ten", "daily", 30*time.Minute) // when the 70 leave
	h.again()
	h.used(100)
	h.clock.Add(30*time.Minute - tick)
	h.denied("ten", "daily", tick)
	h.clock.Add(tick)
	h.granted("ten")

	// What has passed, and the end of nothing, change nothing.
	h.lend(quota.Change{Limit: "daily", Units: 1, Until: h.clock.Now()}, false)
	h.lend(quota.Change{Limit: "daily"}, false)
}

func twoLoans(t *testing.T, harness Harness) {
	h := begin(t, harness, one(100, quota.Sliding(time.Hour)))
	start := h.clock.Now()
	h.granted("most")
	h.clock.Add(time.Minute)
	h.lend(quota.Change{Limit: "daily", Units: 30, Until: start.Add(20 * time.Minute), Note: "longer"}, true)
	h.lend(quota.Change{Limit: "daily", Units: 20, Until: start.Add(10 * time.Minute), Note: "shorter"}, true)
	h.lent("daily", 50, start.Add(10*time.Minute))
	h.granted("most")
	h.granted("ten") // all of it: 150
	// Nothing fits under either loan any more: a minute after them the 70 leave, and 80 are left.
	h.denied("ten", "daily", 59*time.Minute)
	h.clock.Set(start.Add(10 * time.Minute))
	h.lent("daily", 30, start.Add(20*time.Minute))
	h.settle(h.granted0(), 0)
	// 80 of 130.
	h.granted("ten")
	h.clock.Set(start.Add(20*time.Minute - tick))
	h.granted("ten")
	h.granted("ten")
	h.clock.Add(tick)
	h.used(110)
	h.denied("list", "daily", 41*time.Minute) // the second 70 were granted at minute 1
}

// granted0 returns the oldest grant in the log.
func (h *history) granted0() quota.Decision {
	h.Helper()
	for _, e := range h.log(quota.LogQuery{Max: 100}).Entries {
		if e.Kind() == quota.KindGrant {
			return quota.Decision{GrantID: quota.GrantID(h.c.Name, e.ID)}
		}
	}
	h.Fatal("nothing was granted")
	return quota.Decision{}
}

func loanEnded(t *testing.T, harness Harness) {
	h := begin(t, harness, one(10, quota.Sliding(time.Hour)))
	start := h.clock.Now()
	h.granted("ten")
	h.lend(quota.Change{Limit: "daily", Units: 20, Until: start.Add(30 * time.Minute)}, true)
	h.lend(quota.Change{Limit: "daily", Units: 20, Until: start.Add(40 * time.Minute)}, true)
	h.granted("ten")
	h.clock.Add(time.Minute)
	h.lend(quota.Change{Limit: "daily", Note: "enough"}, true)
	h.lent("daily", 0, time.Time{})
	h.denied("list", "daily", 59*time.Minute)
	page := h.log(quota.LogQuery{Newest: true, Max: 1})
	if e := page.Entries[0]; e.Kind() != quota.KindLoan || e.Body.(quota.Changed).Units != 0 || e.Note != "enough" || e.By != "@0" {
		t.Errorf("got %+v, want that the loans ended, by whom and why", e)
	}
	h.again()
	h.denied("list", "daily", 59*time.Minute)
	h.lend(quota.Change{Limit: "daily"}, false)
	h.lend(quota.Change{Limit: "daily", Units: 11, Until: start.Add(5 * time.Minute)}, true) // a new one counts
	h.granted("list")
	h.denied("list", "daily", 59*time.Minute)
}

// loanOutlasted has one limit with room under a loan, which is over when the other one has room.
func loanOutlasted(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	start := h.clock.Now()
	for range 2 {
		h.granted("videos.insert")
	}
	h.clock.Add(time.Hour)
	h.granted("search.list")
	h.granted("search.list") // daily is full until 24 h after the start
	h.lend(quota.Change{Limit: "daily", Units: 200, Until: start.Add(90 * time.Minute)}, true)
	h.granted("search.list")
	// 1100 of 1200 and 300 of 300: in an hour search has room, but the loan is over by then.
	d := h.acquire(quota.Request{Operation: "search.list"})
	h.isDenial(d, "search", 23*time.Hour)
	h.clock.Set(start.Add(2 * time.Hour))
	h.denied("search.list", "daily", 22*time.Hour)
	h.clock.Set(d.RetryAt.Add(-tick))
	h.denied("search.list", "daily", tick)
	h.clock.Add(tick)
	h.granted("search.list")

	// So it is where a limit is closed until after a loan of its own.
	h = begin(t, harness, one(10, quota.Sliding(time.Hour)))
	h.granted("ten")
	h.lend(quota.Change{Limit: "daily", Units: 10, Until: h.clock.Now().Add(20 * time.Minute)}, true)
	h.closing(quota.Change{Limit: "daily", Until: h.clock.Now().Add(10 * time.Minute)}, true)
	h.closedBy("ten", "daily", 10*time.Minute)
	h.closing(quota.Change{Limit: "daily", Until: h.clock.Now().Add(20 * time.Minute)}, true)
	d = h.acquire(quota.Request{Operation: "ten"})
	if d.Reason != quota.LimitClosed || d.RetryAfter != time.Hour {
		t.Errorf("got %s for %v, want limit_closed for an hour: the loan ends as the limit opens", d.Reason, d.RetryAfter)
	}
}

func loanOfTheDay(t *testing.T, harness Harness) {
	h := begin(t, harness, one(10, quota.Calendar(quota.Day, time.UTC)))
	h.clock.Set(time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC))
	h.granted("ten")
	h.denied("list", "daily", 2*time.Hour)
	until := time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC)
	h.lend(quota.Change{Limit: "daily", Units: 20, Until: until}, true)
	h.granted("ten")
	h.granted("ten")
	h.denied("ten", "daily", 2*time.Hour)
	h.clock.Add(2 * time.Hour) // the new day has the loan for an hour, too
	h.granted("ten")
	h.granted("ten")
	h.clock.Set(until)
	h.denied("list", "daily", 23*time.Hour)
}

// loanOutlivesWindow has a loan run although no window holds its entry any more.
func loanOutlivesWindow(t *testing.T, harness Harness) {
	h := begin(t, harness, one(100, quota.Sliding(24*time.Hour)))
	until := h.clock.Now().Add(24 * time.Hour)
	h.lend(quota.Change{Limit: "daily", Units: 100, Until: until}, true)
	h.lend(quota.Change{Limit: "daily"}, true)
	h.lend(quota.Change{Limit: "daily", Units: 70, Until: until}, true)
	h.c = one(100, quota.Sliding(time.Minute))
	asks := make([]quota.Ask, 100)
	for i := range asks {
		asks[i] = h.ask(quota.Request{Operation: "list"})
	}
	for range 20 {
		for _, d := range h.acquireAll(asks...) {
			h.isGrant(d)
		}
		h.clock.Add(2 * time.Minute)
	}
	h.lent("daily", 70, until)
	h.again()
	h.lent("daily", 70, until)
	h.granted("most")
	h.granted("most")
	h.clock.Set(until.Add(-tick))
	h.granted("most")
	h.granted("most")
	h.clock.Add(tick)
	h.denied("list", "daily", time.Minute-tick)
}

func resetEndsLoans(t *testing.T, harness Harness) {
	h := begin(t, harness, one(10, quota.Sliding(time.Hour)))
	h.lend(quota.Change{Limit: "daily", Units: 10, Until: h.clock.Now().Add(time.Hour)}, true)
	h.granted("ten")
	h.granted("ten")
	if err := h.ledger.Reset(context.Background(), h.c, quota.Caller{UID: 0}, "a new project"); err != nil {
		t.Fatal(err)
	}
	h.lent("daily", 0, time.Time{})
	h.granted("ten")
	h.again()
	h.denied("list", "daily", time.Hour)
}
