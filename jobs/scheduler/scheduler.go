package scheduler

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"quotad/jobs"
)

// A Scheduler calls a function for each slot of each job. Any number of
// goroutines may use it at the same time.
type Scheduler struct {
	tick   func(job string, slot time.Time)
	now    func() time.Time // the wall clock
	timers gocron.Scheduler

	mu      sync.Mutex // guards what follows, and what entries point to
	entries map[string]*entry
}

// heartbeat is how often the slots are checked in addition to the timers. Timers
// count the time that passes while the machine is awake: after a suspension, or
// when the clock is set, they come at the wrong time of day. A check costs a microsecond for
// each job.
const heartbeat = 5 * time.Second

// New returns a scheduler that calls tick for each slot that comes, once, from a
// goroutine of its own and soon after the slot; if slots went by unnoticed, only
// for the latest of them. Nothing comes before Start. A panic of tick ends the process: gocron lets
// it through.
func New(tick func(job string, slot time.Time)) (*Scheduler, error) {
	return newScheduler(tick, time.Now)
}

func newScheduler(tick func(string, time.Time), now func() time.Time) (*Scheduler, error) {
	timers, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
	if err != nil {
		return nil, fmt.Errorf("cannot make a scheduler: %w", err)
	}
	s := &Scheduler{tick: tick, now: now, timers: timers, entries: make(map[string]*entry)}
	if _, err := timers.NewJob(gocron.DurationJob(heartbeat), gocron.NewTask(s.check)); err != nil {
		return nil, fmt.Errorf("cannot make a scheduler: %w", err)
	}
	return s, nil
}

// Start begins to tick: slots later than the job's Set, also those that have
// come since then.
func (s *Scheduler) Start() {
	s.timers.Start()
	s.check()
}

// Stop ends all ticks and waits for those under way.
func (s *Scheduler) Stop() error {
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

// Beat calls a function at an interval from the loop that ticks, each time after the slots
// were checked: while it is called, ticks come. A call that would begin while the last one
// is under way is skipped. Nothing is called
// before Start, nor after Stop, which waits for a call under way.
func (s *Scheduler) Beat(every time.Duration, call func()) error {
	_, err := s.timers.NewJob(
		gocron.DurationJob(every),
		gocron.NewTask(func() {
			s.check()
			call()
		}),
		gocron.WithSingletonMode(gocron.LimitModeReschedule),
	)
	if err != nil {
		return fmt.Errorf("cannot schedule a beat every %v: %w", every, err)
	}
	return nil
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
