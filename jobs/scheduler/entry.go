package scheduler

import (
	"time"

	"github.com/go-co-op/gocron/v2"

	"quotad/jobs"
)

// An entry is a job with the slot that it waits for.
type entry struct {
	job      string
	schedule jobs.Schedule
	timer    gocron.Job

	due  time.Time // the next slot to tick; zero if none comes any more
	last time.Time // the last slot that was ticked
}

// advance returns the slot that is to be ticked now, if any is due, and moves to the one after
// it. A timer may come a little early. The caller holds Scheduler.mu.
func (e *entry) advance(now time.Time, byTimer bool) (slot time.Time, due bool) {
	if next := e.schedule.Next(now); !next.IsZero() && next.Before(e.due) && !next.Equal(e.last) {
		e.due = next // the clock was set back
	}
	if e.due.IsZero() {
		return time.Time{}, false
	}
	until := now
	if byTimer {
		until = now.Add(e.early())
	}
	if e.due.After(until) {
		return time.Time{}, false
	}
	slot = e.due
	if latest := jobs.Latest(e.schedule, now); latest.After(slot) {
		slot = latest
	}
	e.last, e.due = slot, e.schedule.Next(slot)
	return slot, true
}

// early is how long before its slot a timer may come. NTP slows the clock down to correct it,
// and timers do not follow. It is short enough that a slot is not mistaken for the next one.
func (e *entry) early() time.Duration {
	const limit = time.Second
	after := e.schedule.Next(e.due)
	if after.IsZero() {
		return limit
	}
	return min(limit, after.Sub(e.due)/4)
}
