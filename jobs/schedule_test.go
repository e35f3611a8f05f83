package jobs

import (
	"testing"
	"time"
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

func every(t testing.TB, period time.Duration) Every {
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
		{"a period that does not divide the day", 7 * time.Hour, "1970-01-02 00:00:00", "1970-01-02 04:00:00"},
		{"a week begins on a Thursday, as the epoch did", 7 * 24 * time.Hour, "2026-03-01", "2026-03-05"},
		{"before the epoch", time.Hour, "1969-12-31 22:30:00", "1969-12-31 23:00:00"},
		{"every second", time.Second, "2026-03-01T10:17:00.5Z", "2026-03-01 10:17:01"},
	} {
		got := every(t, test.period).Next(at(t, test.after))
		if want := at(t, test.want); !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("%s: got %v, want %v", test.name, got, want)
		}
	}
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

// The last slot at or before an instant is found, however far back it lies.
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
	} {
		if got, want := Latest(test.schedule, at(t, test.at)), at(t, test.want); !got.Equal(want) {
			t.Errorf("%s: got %v, want %v", test.name, got, want)
		}
	}
	if got := Latest(Every{}, time.Now()); !got.IsZero() {
		t.Errorf("of a schedule that never ticks: got %v", got)
	}
}
