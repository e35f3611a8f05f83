package quota_test

import (
	"testing"
	"time"

	"quotad/quota"
)

func load(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	must(t, err)
	return zone
}

// TestPeriodsTile walks through years of periods: each begins where the last one
// ended, and every instant of it names it.
func TestPeriodsTile(t *testing.T) {
	for _, name := range []string{
		"UTC", "America/Los_Angeles", "Europe/London", "Asia/Kolkata", "America/Santiago",
		"Africa/Cairo", "America/Asuncion", "Australia/Lord_Howe", "Asia/Beirut", "Pacific/Chatham",
	} {
		zone := load(t, name)
		for period, shortest := range map[quota.Period]time.Duration{quota.Hour: 15 * time.Minute, quota.Day: 23 * time.Hour, quota.Month: 27 * 24 * time.Hour} {
			t.Run(name+" "+string(period), func(t *testing.T) {
				w := quota.Calendar(period, zone)
				now := time.Date(2024, 1, 1, 0, 0, 0, 0, zone)
				for until := now.AddDate(4, 0, 0); now.Before(until); {
					after, end := w.Bounds(now)
					start := after.Add(time.Microsecond)
					if !start.Equal(now) {
						t.Fatalf("the period at %v begins at %v", now, start)
					}
					length := end.Sub(start)
					if length < shortest || length > w.Span() {
						t.Fatalf("the period at %v lasts %v", now, length)
					}
					for _, inside := range []time.Time{start.Add(length / 2), end.Add(-time.Microsecond)} {
						if a, e := w.Bounds(inside); !a.Equal(after) || !e.Equal(end) {
							t.Fatalf("%v lies in (%v, %v), want (%v, %v)", inside, a, e, after, end)
						}
					}
					now = end
				}
			})
		}
	}
}

// In Gaza the clock was set back over midnight, so that the 1st of October 2004
// began twice: what is spent in between belongs to September alone.
func TestMonthThatBeginsTwice(t *testing.T) {
	w := quota.Calendar(quota.Month, load(t, "Asia/Gaza"))
	now := time.Date(2004, 9, 30, 20, 0, 0, 0, time.UTC)
	_, september := w.Bounds(now)
	for ; now.Before(september); now = now.Add(time.Minute) {
		if _, end := w.Bounds(now); !end.Equal(september) {
			t.Fatalf("the month at %v ends at %v, want %v", now, end, september)
		}
	}
	if after, _ := w.Bounds(september); !after.Equal(september.Add(-time.Microsecond)) {
		t.Errorf("October begins behind %v, want where September ends, at %v", after, september)
	}
}

// Periods from an instant tile all of time, before it as after it, whatever the clocks of people do.
func TestAnchoredPeriodsTile(t *testing.T) {
	from := time.Date(2026, 1, 1, 11, 30, 15, 5e6, time.UTC)
	for _, every := range []time.Duration{time.Minute, 20 * time.Minute, 24 * time.Hour, 7 * 24 * time.Hour} {
		w := quota.Anchored(every, from.In(load(t, "America/Los_Angeles")))
		for _, n := range []time.Duration{-1000, -1, 0, 1, 300, 5000} {
			start := from.Add(n * every)
			for _, inside := range []time.Duration{0, time.Millisecond, every / 2, every - time.Microsecond} {
				after, end := w.Bounds(start.Add(inside))
				if !after.Equal(start.Add(-time.Microsecond)) || !end.Equal(start.Add(every)) {
					t.Errorf("%s: %v lies in (%v, %v), want the period from %v", w, start.Add(inside), after, end, start)
				}
			}
		}
		if w.Span() != every || w.Nominal() != every || !w.Restarts() {
			t.Errorf("%s is %v, %v long", w, w.Span(), w.Nominal())
		}
	}
}
