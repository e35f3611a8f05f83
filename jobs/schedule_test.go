package jobs

import (
	"math/rand/v2"
	"testing"
	"time"

	"quotad/quota/seedtest"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC()
		}
	}
	t.Fatalf("not a time: %q", text)
	return time.Time{}
}

func every(t *testing.T, period time.Duration) Every {
	t.Helper()
	e, err := NewEvery(period)
	must(t, err)
	return e
}

func TestEvery(t *testing.T) {
	for _, test := range []struct {
		name        string
		period      time.Duration
		after, want string
	}{
		{"half an hour", 30 * time.Minute, "2026-03-01 10:17:00", "2026-03-01 10:30:00"},
		{"strictly later", 30 * time.Minute, "2026-03-01 10:30:00", "2026-03-01 11:00:00"},
		{"a nanosecond before", 30 * time.Minute, "2026-03-01T10:29:59.999999999Z", "2026-03-01 10:30:00"},
		{"a period that does not divide the day", 7 * time.Hour, "1970-01-02 00:00:00", "1970-01-02 04:00:00"},
		{"a week begins on a Thursday, as the epoch did", 7 * 24 * time.Hour, "2026-03-01", "2026-03-05"},
		{"before the epoch", time.Hour, "1969-12-31 22:30:00", "1969-12-31 23:00:00"},
		{"on a slot before the epoch", time.Hour, "1969-12-31 22:00:00", "1969-12-31 23:00:00"},
		{"every second", time.Second, "2026-03-01T10:17:00.5Z", "2026-03-01 10:17:01"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := every(t, test.period).Next(at(t, test.after))
			if want := at(t, test.want); !got.Equal(want) || got.Location() != time.UTC {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// The slots are the same wherever one begins to look: no restart moves them.
func TestEverySlotsDoNotDependOnTheStart(t *testing.T) {
	random := rand.New(rand.NewPCG(seedtest.Seed(t, 1), 0))
	for range 1000 {
		e := every(t, time.Second+time.Duration(random.Int64N(int64(100*time.Hour))))
		from := time.Unix(random.Int64N(4e9), random.Int64N(1e9))
		slot := e.Next(from)
		if !slot.After(from) || slot.Sub(from) > e.Period {
			t.Fatalf("%v: the slot after %v is %v", e, from, slot)
		}
		between := from.Add(time.Duration(random.Int64N(int64(slot.Sub(from)))))
		if got := e.Next(between); !got.Equal(slot) {
			t.Fatalf("%v: from %v the next slot is %v, from %v it is %v", e, from, slot, between, got)
		}
		if got := e.Next(slot); got.Sub(slot) != e.Period {
			t.Fatalf("%v: %v follows %v", e, got, slot)
		}
	}
}

func TestEveryRefusesShortPeriods(t *testing.T) {
	for _, period := range []time.Duration{0, -time.Hour, time.Second - 1} {
		if _, err := NewEvery(period); err == nil {
			t.Errorf("a period of %v was accepted", period)
		}
	}
	if got := (Every{}).Next(time.Now()); !got.IsZero() {
		t.Errorf("the zero value ticks at %v", got)
	}
}

// shifted ticks later than another schedule.
type shifted struct {
	Schedule
	by time.Duration
}

func (s shifted) Next(t time.Time) time.Time { return s.Schedule.Next(t.Add(-s.by)).Add(s.by) }
func (s shifted) String() string             { return s.Schedule.String() + " later" }

// office ticks every minute of the hours from 9 to 17, which makes it as
// irregular as a cron line.
type office struct{}

func (office) Next(t time.Time) time.Time {
	next := t.UTC().Truncate(time.Minute).Add(time.Minute)
	if next.Hour() < 9 {
		return next.Truncate(24 * time.Hour).Add(9 * time.Hour)
	}
	if next.Hour() >= 17 {
		return next.Truncate(24 * time.Hour).Add(33 * time.Hour)
	}
	return next
}

func (office) String() string { return "every minute of the day's work" }

func TestLatest(t *testing.T) {
	for _, test := range []struct {
		name     string
		schedule Schedule
		at, want string
	}{
		{"on a slot", every(t, time.Hour), "2026-03-01 10:00:00", "2026-03-01 10:00:00"},
		{"just before a slot", every(t, time.Hour), "2026-03-01T10:59:59.999999999Z", "2026-03-01 10:00:00"},
		{"every second", every(t, time.Second), "2026-03-01T10:00:00.7Z", "2026-03-01 10:00:00"},
		{"once in a thousand days", every(t, 1000*24*time.Hour), "2026-03-01", "2024-10-04"},
		{"at work", office{}, "2026-03-02 16:20:30", "2026-03-02 16:20:00"},
		{"after work", office{}, "2026-03-02 23:00:00", "2026-03-02 16:59:00"},
		{"before work", office{}, "2026-03-02 08:59:59", "2026-03-01 16:59:00"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, want := Latest(test.schedule, at(t, test.at)), at(t, test.want); !got.Equal(want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	if got := Latest(Every{}, time.Now()); !got.IsZero() {
		t.Errorf("of a schedule that never ticks: got %v", got)
	}
}

// counted counts how often a schedule is asked.
type counted struct {
	Schedule
	asked *int
}

func (c counted) Next(t time.Time) time.Time {
	*c.asked++
	return c.Schedule.Next(t)
}

// After a year without a tick the daemon does not walk through every second of it.
func TestLatestDoesNotWalk(t *testing.T) {
	asked := 0
	at := at(t, "2026-03-02 23:00:00")
	Latest(counted{office{}, &asked}, at)
	if asked > 210 {
		t.Errorf("asked for %d slots, want no more than 210", asked)
	}
}
