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
