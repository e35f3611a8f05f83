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

	monthly := one(1, quota.Calendar(quota.Month, kolkata))
	monthly.Name = "monthly"
	h.use(monthly)
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
	h.clock.Add(9*time.Hour + tick)
	h.used(2, 2)
	h.denied("list", "day", 15*time.Hour-tick)
	h.clock.Add(15 * time.Hour)
	h.granted("list")
	h.used(1, 1)
}

func changedUnits(t *testing.T, harness Harness) {
	h := begin(t, harness, one(10, quota.Sliding(time.Hour)))
	h.granted("ten")
	h.clock.Add(time.Minute)
	h.denied("list", "daily", 59*time.Minute)
	h.use(one(12, quota.Sliding(time.Hour)))
	h.granted("list")
	h.use(one(5, quota.Sliding(time.Hour)))
	h.used(11)
	d := h.denied("list", "daily", 59*time.Minute)
	if d.Remaining() != 0 {
		t.Errorf("got %d remaining of an overdrawn limit, want 0", d.Remaining())
	}
	c := one(12, quota.Sliding(time.Hour))
	c.Limits[0].Reserve = 11
	h.use(c)
	h.denied("list", "daily", time.Hour)
}

func shorterWindow(t *testing.T, harness Harness) {
	h := begin(t, harness, one(10, quota.Sliding(time.Hour)))
	h.granted("ten")
	h.clock.Add(10 * time.Minute)
	h.denied("list", "daily", 50*time.Minute)
	h.use(one(10, quota.Sliding(30*time.Minute)))
	h.denied("list", "daily", 20*time.Minute)
	h.use(one(10, quota.Sliding(5*time.Minute)))
	h.used(0)
	h.granted("list")
	h.use(one(20, quota.Sliding(time.Hour))) // what had left is counted again: the log has it
	h.used(11)
	h.again()
	h.used(11)
}

// longerWindow lengthens windows: they count what the log has, each entry by the charge that it has.
func longerWindow(t *testing.T, harness Harness) {
	c := one(1000, quota.Sliding(time.Minute))
	c.Keep = 24 * time.Hour
	h := begin(t, harness, c)
	for range 20 {
		h.times(5, "list")
		h.clock.Add(30 * time.Second)
	}
	h.used(9)
	for _, window := range []time.Duration{10 * time.Minute, 2 * time.Minute, time.Hour, time.Minute} {
		c := one(1000, quota.Sliding(window))
		c.Keep, c.Operations = 24*time.Hour, map[string]quota.Cost{"list": {Every: 7}, "most": {Every: 995}}
		h.use(c)
		h.used(min(100, quota.Units(window/(30*time.Second))*5-1)) // the first of five leaves now
	}
	c = one(100, quota.Sliding(time.Hour))
	c.Keep = 24 * time.Hour
	h.use(c)
	h.denied("list", "daily", 50*time.Minute)
	h.again()
	h.denied("list", "daily", 50*time.Minute)
}

// calendarToSliding changes the kind of a window in both directions, twice, with entries on both sides of midnight.
func calendarToSliding(t *testing.T, harness Harness) {
	day, sliding := one(100, quota.Calendar(quota.Day, time.UTC)), one(100, quota.Sliding(24*time.Hour))
	day.Keep, sliding.Keep = 48*time.Hour, 48*time.Hour
	h := begin(t, harness, day)
	h.clock.Set(time.Date(2126, 11, 21, 20, 0, 0, 0, time.UTC))
	h.granted("most")
	h.clock.Add(5 * time.Hour) // 01:00
	h.granted("ten")
	h.used(10)
	for range 2 {
		h.use(sliding)
		h.used(80)
		h.denied("most", "daily", 19*time.Hour)
		h.use(day)
		h.used(10)
	}
	h.granted("most")
	h.denied("most", "daily", 23*time.Hour)
	h.use(sliding)
	h.used(150)
	h.denied("list", "daily", 19*time.Hour)
	h.clock.Add(19 * time.Hour)
	h.used(80)
	h.granted("ten")
	h.use(day)
	h.used(90)
}

// newLimit adds limits, and gives one another name: a new one counts what entries charged it, which is nothing.
func newLimit(t *testing.T, harness Harness) {
	h := begin(t, harness, daily())
	h.granted("search.list")
	h.granted("videos.list")
	h.clock.Add(time.Minute)
	released := h.granted("search.list")
	h.settle(released, 0)
	c := daily()
	c.Limits[1].Name = "searches"
	c.Limits = append(c.Limits, quota.Limit{Name: "lists", Units: 10, Window: quota.Sliding(time.Hour), Only: []string{"videos.list"}})
	h.use(c)
	h.used(101, 0, 0)
	h.granted("search.list")
	h.granted("videos.list")
	h.used(202, 100, 1)
	h.use(daily())
	h.used(202, 100) // search counts what it was charged, under its name
	h.use(c)
	h.again()
	h.used(202, 100, 1)
	h.clock.Add(time.Hour + tick)
	h.used(202, 0, 0)
}
