package ledgertest

import (
	"testing"
	"time"

	"quotad/quota"
)

// zone loads a time zone that every machine with Go has.
func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// calendarDays fills the Pacific days around each change of 2026 and 2027.
func calendarDays(t *testing.T, harness Harness) {
	pacific := zone(t, "America/Los_Angeles")
	for _, day := range []struct {
		name       string
		start, end time.Time // UTC
	}{
		{"23 hours, 2026", time.Date(2026, 3, 8, 8, 0, 0, 0, time.UTC), time.Date(2026, 3, 9, 7, 0, 0, 0, time.UTC)},
		{"25 hours, 2026", time.Date(2026, 11, 1, 7, 0, 0, 0, time.UTC), time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)},
		{"23 hours, 2027", time.Date(2027, 3, 14, 8, 0, 0, 0, time.UTC), time.Date(2027, 3, 15, 7, 0, 0, 0, time.UTC)},
		{"25 hours, 2027", time.Date(2027, 11, 7, 7, 0, 0, 0, time.UTC), time.Date(2027, 11, 8, 8, 0, 0, 0, time.UTC)},
		{"24 hours", time.Date(2026, 7, 1, 7, 0, 0, 0, time.UTC), time.Date(2026, 7, 2, 7, 0, 0, 0, time.UTC)},
	} {
		t.Run(day.name, func(t *testing.T) {
			h := begin(t, harness, one(2, quota.Calendar(quota.Day, pacific)))
			h.clock.Set(day.start.Add(-tick))
			h.granted("list")
			h.granted("list")
			h.denied("list", "daily", tick)
			h.clock.Set(day.start)
			h.used(0)
			h.granted("list")
			h.clock.Set(day.end.Add(-time.Hour))
			h.granted("list")
			h.denied("list", "daily", time.Hour)
			h.clock.Set(day.end.Add(-tick))
			h.denied("list", "daily", tick)
			h.clock.Set(day.end)
			h.granted("list")
			h.used(1)
		})
	}
}

// anchoredPeriods: a day begins at the minute of a subscription, also when the clocks of people change.
func anchoredPeriods(t *testing.T, harness Harness) {
	begins := time.Date(2026, 10, 31, 11, 30, 15, 0, time.UTC)
	h := begin(t, harness, one(2, quota.Anchored(24*time.Hour, time.Date(2026, 1, 1, 11, 30, 15, 0, time.UTC))))
	h.clock.Set(begins.Add(-tick))
	h.granted("list")
	h.granted("list")
	h.denied("list", "daily", tick)
	for range 3 {
		h.clock.Set(begins)
		h.used(0)
		h.granted("list")
		h.clock.Set(begins.Add(24*time.Hour - time.Minute))
		h.granted("list")
		h.denied("list", "daily", time.Minute)
		begins = begins.Add(24 * time.Hour)
	}
}

func calendarPeriods(t *testing.T, harness Harness) {
	kolkata := zone(t, "Asia/Kolkata") // half an hour off the full hour of UTC
	h := begin(t, harness, one(1, quota.Calendar(quota.Hour, kolkata)))
	h.clock.Set(time.Date(2026, 5, 31, 10, 15, 0, 0, time.UTC))
	h.granted("list")
	h.denied("list", "daily", 15*time.Minute)
	h.clock.Add(15 * time.Minute)
	h.granted("list")
	h.denied("list", "daily", time.Hour)

	h.c = one(1, quota.Calendar(quota.Month, kolkata)) // a ledger may still be reading the other
	h.c.Name = "monthly"
	h.granted("list")
	end := time.Date(2026, 5, 31, 18, 30, 0, 0, time.UTC)
	h.denied("list", "daily", end.Sub(h.clock.Now()))
	h.clock.Set(end)
	h.granted("list")
	h.denied("list", "daily", 30*24*time.Hour)
}

func bothWindows(t *testing.T, harness Harness) {
	c := one(4, quota.Sliding(24*time.Hour))
	c.Limits = append(c.Limits, quota.Limit{Name: "day", Units: 2, Window: quota.Calendar(quota.Day, time.UTC)})
	h := begin(t, harness, c) // at nine
	h.granted("list")
	h.granted("list")
	h.denied("list", "day", 15*time.Hour)
	h.clock.Add(15 * time.Hour)
	h.granted("list")
	h.granted("list")
	h.used(4, 2)
	// The day refuses until midnight, the log only until nine.
	h.denied("list", "day", 24*time.Hour)
	h.clock.Add(9 * time.Hour)
	h.used(2, 2)
	h.denied("list", "day", 15*time.Hour)
	h.clock.Add(15 * time.Hour)
	h.granted("list")
	h.used(1, 1)
}

func changedUnits(t *testing.T, harness Harness) {
	h := begin(t, harness, one(10, quota.Sliding(time.Hour)))
	h.granted("ten")
	h.clock.Add(time.Minute)
	h.denied("list", "daily", 59*time.Minute)
	h.c = one(12, quota.Sliding(time.Hour))
	h.granted("list")
	h.c = one(5, quota.Sliding(time.Hour))
	h.used(11)
	d := h.denied("list", "daily", 59*time.Minute)
	if d.Remaining() != 0 {
		t.Errorf("got %d remaining of an overdrawn limit, want 0", d.Remaining())
	}
	h.c = one(12, quota.Sliding(time.Hour))
	h.c.Limits[0].Reserve = 11
	h.denied("list", "daily", time.Hour)
}

func shorterWindow(t *testing.T, harness Harness) {
	h := begin(t, harness, one(10, quota.Sliding(time.Hour)))
	h.granted("ten")
	h.clock.Add(10 * time.Minute)
	h.denied("list", "daily", 50*time.Minute)
	h.c = one(10, quota.Sliding(30*time.Minute))
	h.denied("list", "daily", 20*time.Minute)
	h.c = one(10, quota.Sliding(5*time.Minute))
	h.used(0)
	h.granted("list")
	// Back to the hour: what had left is counted again, or known to be missing.
	h.c = one(20, quota.Sliding(time.Hour))
	if limit := h.usage().Limits[0]; limit.Used != 11 && limit.CatchingUp.IsZero() {
		t.Errorf("got %+v, want 11 units used, or a limit that is catching up", limit)
	}
}

// longerWindow lengthens a window beyond what the log kept.
func longerWindow(t *testing.T, harness Harness) {
	h := begin(t, harness, one(1000, quota.Sliding(time.Minute)))
	asks := make([]quota.Ask, 50)
	for i := range asks {
		asks[i] = h.ask(quota.Request{Operation: "list"})
	}
	for range 20 {
		h.acquireAll(asks...)
		h.clock.Add(30 * time.Second)
	}
	h.c = one(1000, quota.Sliding(time.Hour))
	d := h.acquire(quota.Request{Operation: "list"})
	if _, isModel := h.ledger.(*Model); isModel {
		h.isDenial(d, "daily", 50*time.Minute)
		return
	}
	if d.Reason != quota.LimitExceeded || d.RetryAfter <= 0 || d.RetryAfter > time.Hour {
		t.Fatalf("got %+v, want a denial until the log reaches back an hour", d)
	}
	if !d.Limits[0].CatchingUp.Equal(d.RetryAt) {
		t.Errorf("got %+v, want it said that the limit is catching up", d)
	}
	u := h.usage()
	if !u.Limits[0].CatchingUp.Equal(d.RetryAt) || u.Limits[0].Remaining() != 0 {
		t.Errorf("usage says %+v, want it to be catching up until %v", u.Limits[0], d.RetryAt)
	}
	h.clock.Set(d.RetryAt.Add(-tick))
	h.denied("list", "daily", tick)
	h.clock.Add(tick)
	h.granted("list")
	if u := h.usage(); !u.Limits[0].CatchingUp.IsZero() {
		t.Errorf("usage still says %+v", u.Limits[0])
	}
}

func renamedLimit(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	h.granted("search.list")
	h.granted("videos.list")
	h.clock.Add(time.Minute)
	released := h.granted("search.list")
	h.settle(released, 0)
	c := daily()
	c.Limits[0].Name = "everything"
	c.Limits[1].Name = "searches"
	h.c = c
	h.used(101, 100)
	h.granted("search.list")
	h.used(201, 200)
	// A limit that did not exist before counts what it would have counted, at
	// today's costs, and only as far as its window reaches.
	c = daily()
	c.Limits = append(c.Limits, quota.Limit{Name: "reads", Units: 10, Window: quota.Sliding(30 * time.Second), Only: []string{"videos.list"}})
	h.c = c
	h.used(201, 200, 0)
	c = daily()
	c.Limits = append(c.Limits, quota.Limit{Name: "lists", Units: 10, Window: quota.Sliding(time.Hour), Only: []string{"videos.list"}})
	h.c = c
	h.used(201, 200, 1)
	h.clock.Add(time.Hour)
	h.used(201, 0, 0)
}

// limitOfOneHost alternates between two hosts, one of which has a limit more.
func limitOfOneHost(t *testing.T, harness Harness) {
	few, more := one(100, quota.Sliding(time.Hour)), one(100, quota.Sliding(time.Hour))
	more.Limits = append(more.Limits, quota.Limit{Name: "extra", Units: 50, Window: quota.Sliding(time.Minute)})
	h := begin(t, harness, few)
	want := quota.Units(0)
	for range 4 {
		h.c = few
		h.granted("ten")
		h.c = more
		h.granted("list")
		want += 11
		h.used(want, want)
		h.clock.Add(time.Second)
	}
	h.c = few
	h.granted("list")
	h.c = more
	h.clock.Add(time.Minute - 4*time.Second)
	h.used(45, 34)
	h.clock.Add(4 * time.Second)
	h.used(45, 0)
}
