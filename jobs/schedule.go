package jobs

import (
	"fmt"
	"time"

	"quotad/quota"
)

// A Schedule says when a job ticks. It is a pure function of time: the same before and after a restart.
type Schedule interface {
	// Next returns the first slot later than t, in UTC, or the zero time if there is none.
	Next(t time.Time) time.Time
	// String returns the schedule as configured: "every 30m", "cron */30 * * * *".
	String() string
}

// Every ticks at a fixed period, aligned to the Unix epoch. The zero value never ticks.
type Every struct {
	Period time.Duration
}

// minPeriod is the shortest period at which a job may tick.
const minPeriod = time.Second

// NewEvery returns the schedule that ticks at each multiple of a period since the Unix epoch.
func NewEvery(period time.Duration) (Every, error) {
	if period < minPeriod {
		return Every{}, fmt.Errorf("a period is at least %v: %v", minPeriod, period)
	}
	return Every{period}, nil
}

// Next returns the first slot later than t, which lies between the years 1700 and 2200.
func (e Every) Next(t time.Time) time.Time {
	if e.Period <= 0 {
		return time.Time{}
	}
	since := t.UnixNano()
	k := since / int64(e.Period)
	if since < 0 && since%int64(e.Period) != 0 {
		k-- // division rounds towards zero, and slots before the epoch are slots too
	}
	return time.Unix(0, (k+1)*int64(e.Period)).UTC()
}

func (e Every) String() string {
	return "every " + quota.Brief(e.Period)
}

// Unscheduled never ticks: only an operator begins a run.
type Unscheduled struct{}

// Next returns the zero time.
func (Unscheduled) Next(time.Time) time.Time { return time.Time{} }

func (Unscheduled) String() string { return "manual" }

// Latest returns the last slot at or before t, or the zero time if none lies
// within the five years before. It goes through the slots since at most twice as long before t.
func Latest(s Schedule, t time.Time) (latest time.Time) {
	const furthest = 5 * 366 * 24 * time.Hour
	for back := time.Second; latest.IsZero() && back < 2*furthest; back *= 2 {
		for slot := s.Next(t.Add(-min(back, furthest))); !slot.IsZero() && !slot.After(t); slot = s.Next(slot) {
			latest = slot
		}
	}
	return latest
}

// A Pause keeps a job from being run by its schedule.
type Pause struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"` // zero: until it is resumed
	Note  string    `json:"note,omitempty"` // why
	By    string    `json:"by,omitempty"`   // who paused it
}

// Active returns whether the pause, which may be nil, holds at t.
func (p *Pause) Active(t time.Time) bool {
	return p != nil && (p.Until.IsZero() || t.Before(p.Until))
}

// Next returns the first slot later than t at which the pause, which may be nil, is over;
// the zero time if none comes.
func (p *Pause) Next(s Schedule, t time.Time) time.Time {
	next := s.Next(t)
	switch {
	case next.IsZero() || !p.Active(next):
		return next
	case p.Until.IsZero():
		return time.Time{}
	}
	return s.Next(p.Until.Add(-1)) // a slot at its end runs
}
