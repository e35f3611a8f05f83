package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"quotad/jobs"
)

// A Scheduler calls a function for each slot of each job. Any number of goroutines may use it at the same time.
type Scheduler struct {
	tick    func(job string, slot time.Time)
	now     func() time.Time // the wall clock
	timers  gocron.Scheduler
	beats   []beat          // what Start begins to call
	going   context.Context // until Stop, which waits for beating
	stop    context.CancelFunc
	beating sync.WaitGroup

	mu      sync.Mutex // guards what follows, and what entries point to
	entries map[string]*entry
}

// A beat is a function that is called at an interval of the monotonic clock: gocron computes its timers from the wall
// clock, and while that is behind after it was set back, none comes.
type beat struct {
	every time.Duration
	call  func()
}

// heartbeat is how often the slots are checked in addition to the timers. Timers count the time that passes while the
// machine is awake: after a suspension, or when the clock is set, they come at the wrong time of day. A check costs a
// microsecond for each job.
const heartbeat = 5 * time.Second

// New returns a scheduler that calls tick for each slot that comes, once, from a goroutine of its own and soon after
// the slot; if slots went by unnoticed, only for the latest of them. Nothing comes before Start. A panic of tick ends
// the process: gocron lets it through.
func New(tick func(job string, slot time.Time)) (*Scheduler, error) {
	return newScheduler(tick, time.Now)
}

func newScheduler(tick func(string, time.Time), now func() time.Time) (*Scheduler, error) {
	timers, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
	if err != nil {
		return nil, fmt.Errorf("cannot make a scheduler: %w", err)
	}
	s := &Scheduler{tick: tick, now: now, timers: timers, entries: make(map[string]*entry)}
	s.going, s.stop = context.WithCancel(context.Background())
	s.beats = []beat{{heartbeat, s.check}}
	return s, nil
}

// Start begins to tick: slots later than the job's Set, also those that have come since then.
func (s *Scheduler) Start() {
	s.timers.Start()
	s.check()
	for _, b := range s.beats {
		s.beating.Go(func() {
			ticker := time.NewTicker(b.every)
			defer ticker.Stop()
			for {
				select {
				case <-s.going.Done():
					return
				case <-ticker.C:
					b.call()
				}
			}
		})
	}
}

// Stop ends all ticks and waits for those under way.
func (s *Scheduler) Stop() error {
	s.stop()
	s.beating.Wait()
	if err := s.timers.Shutdown(); err != nil {
		return fmt.Errorf("cannot stop the scheduler: %w", err)
	}
	return nil
}

// Set makes a job tick by a schedule from the next slot on, in place of its former one.
// One that is unscheduled does not tick.
func (s *Scheduler) Set(job string, schedule jobs.Schedule) error {
	if schedule == (jobs.Unscheduled{}) {
		return s.Remove(job)
	}
	first := schedule.Next(s.now())
	if first.IsZero() {
		return fmt.Errorf("cannot schedule job %q: %v never happens", job, schedule)
	}
	if err := s.Remove(job); err != nil {
		return err
	}
	e := &entry{job: job, schedule: schedule, due: first}
	timer, err := s.timers.NewJob(
		gocron.CronJob("", false), // its line is ignored: slots says when
		gocron.NewTask(func() { s.fire(e, true) }),
		gocron.WithCronImplementation(slots{schedule}),
		gocron.WithName(job),
	)
	if err != nil {
		return fmt.Errorf("cannot schedule job %q: %w", job, err)
	}
	e.timer = timer
	s.mu.Lock()
	s.entries[job] = e
	s.mu.Unlock()
	return nil
}

// Remove stops the ticks of a job, if it has any.
func (s *Scheduler) Remove(job string) error {
	s.mu.Lock()
	e := s.entries[job]
	delete(s.entries, job)
	s.mu.Unlock()
	if e == nil {
		return nil
	}
	if err := s.timers.RemoveJob(e.timer.ID()); err != nil && !errors.Is(err, gocron.ErrJobNotFound) {
		return fmt.Errorf("cannot remove job %q from the schedule: %w", job, err)
	}
	return nil
}

// Beat has Start begin to call a function at an interval of the monotonic clock, each time after the slots
// were checked: while it is called, ticks come. A call that takes longer delays the next one. Nothing is called
// after Stop, which waits for a call under way.
func (s *Scheduler) Beat(every time.Duration, call func()) {
	s.beats = append(s.beats, beat{every, func() {
		s.check()
		call()
	}})
}

// check ticks what the timers should have ticked.
func (s *Scheduler) check() {
	s.mu.Lock()
	list := make([]*entry, 0, len(s.entries))
	for _, e := range s.entries {
		list = append(list, e)
	}
	s.mu.Unlock()
	for _, e := range list {
		s.fire(e, false)
	}
}

// fire ticks a job if a slot of it is due.
func (s *Scheduler) fire(e *entry, byTimer bool) {
	s.mu.Lock()
	slot, due := e.advance(s.now(), byTimer)
	s.mu.Unlock()
	if due {
		s.tick(e.job, slot)
	}
}

// slots is a job's schedule in the form in which gocron asks for it.
type slots struct{ jobs.Schedule }

func (slots) IsValid(string, *time.Location, time.Time) error { return nil }

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
