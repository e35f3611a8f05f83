package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"quotad/jobs"
)

// A Scheduler calls a function for each slot of each job. Any number of
// goroutines may use it at the same time.
type Scheduler struct {
	tick    func(job string, slot time.Time)
	now     func() time.Time // the wall clock
	beats   []beat           // what Start begins to call
	changed chan struct{}    // signalled when a job is set
	going   context.Context  // until Stop, which waits for what runs
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex // guards what follows, and what entries point to
	entries map[string]*entry
}

// An entry is a job with the slot that it waits for.
type entry struct {
	job      string
	schedule jobs.Schedule
	due      time.Time // the next slot to tick; zero if none comes any more
	last     time.Time // the last slot that was ticked
}

// A beat is a function that is called at an interval of the monotonic clock.
type beat struct {
	every time.Duration
	call  func()
}

// heartbeat is how often the slots are checked at least. A timer counts the time that passes while the machine is
// awake: after a suspension, or when the clock is set, it comes at the wrong time of day.
const heartbeat = 5 * time.Second

// New returns a scheduler that calls tick for each slot that comes, once and soon after the slot; if slots went by
// unnoticed, only for the latest of them. A tick returns at once: the others wait for it. Nothing comes before Start.
func New(tick func(job string, slot time.Time)) *Scheduler { return newScheduler(tick, time.Now) }

func newScheduler(tick func(string, time.Time), now func() time.Time) *Scheduler {
	s := &Scheduler{tick: tick, now: now, changed: make(chan struct{}, 1), entries: make(map[string]*entry)}
	s.going, s.stop = context.WithCancel(context.Background())
	return s
}

// Start begins to tick: slots later than the job's Set, also those that have
// come since then.
func (s *Scheduler) Start() {
	s.running.Go(func() {
		for s.going.Err() == nil {
			select {
			case <-time.After(s.check()):
			case <-s.changed:
			case <-s.going.Done():
			}
		}
	})
	for _, b := range s.beats {
		s.running.Go(func() {
			ticker := time.NewTicker(b.every)
			defer ticker.Stop()
			for {
				select {
				case <-s.going.Done():
					return
				case <-ticker.C:
					s.check()
					b.call()
				}
			}
		})
	}
}

// Stop ends all ticks and waits for those under way.
func (s *Scheduler) Stop() {
	s.stop()
	s.running.Wait()
}

// Set makes a job tick by a schedule from the next slot on, in place of its former one.
// One that is unscheduled does not tick.
func (s *Scheduler) Set(job string, schedule jobs.Schedule) error {
	if schedule == (jobs.Unscheduled{}) {
		s.Remove(job)
		return nil
	}
	first := schedule.Next(s.now())
	if first.IsZero() {
		return fmt.Errorf("cannot schedule job %q: %v never happens", job, schedule)
	}
	s.mu.Lock()
	s.entries[job] = &entry{job: job, schedule: schedule, due: first}
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return nil
}

// Remove stops the ticks of a job, if it has any.
func (s *Scheduler) Remove(job string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, job)
}

// Beat has Start begin to call a function at an interval of the monotonic clock, each time after the slots
// were checked: while it is called, ticks come. A call that takes longer delays the next one. Nothing is called
// after Stop, which waits for a call under way.
func (s *Scheduler) Beat(every time.Duration, call func()) {
	s.beats = append(s.beats, beat{every, call})
}

// check ticks what is due, and returns when to check again.
func (s *Scheduler) check() (wait time.Duration) {
	var list []entry
	s.mu.Lock()
	wait = heartbeat
	now := s.now()
	for _, e := range s.entries {
		if e.advance(now) {
			list = append(list, *e)
		}
		if !e.due.IsZero() {
			wait = min(wait, e.due.Sub(now))
		}
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b entry) int { return cmp.Or(a.last.Compare(b.last), cmp.Compare(a.job, b.job)) })
	for _, e := range list {
		s.tick(e.job, e.last)
	}
	return max(wait, time.Microsecond)
}

// advance returns whether a slot is to be ticked now: the last one. Due is then the one after it. The caller holds
// Scheduler.mu.
func (e *entry) advance(now time.Time) bool {
	if next := e.schedule.Next(now); !next.IsZero() && next.Before(e.due) && !next.Equal(e.last) {
		e.due = next // the clock was set back
	}
	if e.due.IsZero() || e.due.After(now) {
		return false
	}
	if e.last = e.due; jobs.Latest(e.schedule, now).After(e.last) {
		e.last = jobs.Latest(e.schedule, now)
	}
	e.due = e.schedule.Next(e.last)
	return true
}
