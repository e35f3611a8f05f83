package jobs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A jobControl is what is known of one job: its definition, the run under way, and
// the state that its log holds.
type jobControl struct {
	name string
	log  *runLog

	mu       sync.Mutex // guards what follows and all that it points to; nothing is waited for under it
	job      *Job       // replaced, never changed
	state    state
	executor *executor  // of the run under way, or nil
	output   *runOutput // of the last run since the start; nil before it
	follows  time.Time  // the slot that waits for another job; zero: none does
	died     *Run       // that a killed daemon left open, until it has been reported
	unsaved  error      // what is wrong with the log, until that has been reported
}

// openJob returns the state of a job as the daemon left it, whether it stopped or
// was killed.
func openJob(c *Config, job *Job) (*jobControl, error) {
	j := &jobControl{name: job.Name, job: job}
	var recent []byte
	var err error
	if j.log, recent, err = openRunLog(logPath(c.Dir, j.name)); err != nil {
		return nil, err
	}
	damaged, err := j.log.each(recent, j.state.apply)
	if err != nil {
		return nil, err
	}
	now := c.Now().UTC()
	if damaged > 0 {
		err = j.distrust(damaged, now)
	}
	if running := j.state.running(); running != nil {
		err = errors.Join(err, j.recover(running, now))
	}
	j.unsaved = err
	return j, nil
}

// distrust pauses a job whose log is damaged: what is missing may have been a pause.
func (j *jobControl) distrust(damaged int, now time.Time) error {
	lost := fmt.Sprintf("%s of %q cannot be read", quota.Count(damaged, "line", "lines"), j.log.path)
	if j.state.Pause == nil {
		j.state.Pause = &Pause{Since: now, By: "quotad", Note: lost + ": look at the job's cursor, then resume it"}
	}
	j.log.add(logRecord{Known: &j.state}) // the next start reads no damaged line
	return errors.Join(fmt.Errorf("%s: the job is paused until it is resumed", lost), j.log.flush(true))
}

// recover ends the run during which the daemon was killed: nothing of it runs any more, and no
// region stays running. After an error, such as a full disk, the next start recovers it again.
func (j *jobControl) recover(own *Run, now time.Time) error {
	err := j.commit(true, logRecord{ID: own.ID, End: &ending{At: now, State: RunInterrupted, Reason: Died}})
	j.died = own.copy()
	return err
}

// apply applies records, and has the log write them in this order. The caller holds mu.
func (j *jobControl) apply(list ...logRecord) {
	for _, one := range list {
		j.state.apply(one)
	}
	j.log.add(list...)
}

// commit applies and writes records of what has happened. With sync they are on disk on return. The
// error is why they could not be written: they hold all the same.
func (j *jobControl) commit(sync bool, list ...logRecord) error {
	j.mu.Lock()
	j.apply(list...)
	j.mu.Unlock()
	return j.log.flush(sync)
}

// setHere changes the facts of this host.
func (j *jobControl) setHere(how func(*hostFacts)) error {
	j.mu.Lock()
	here := j.state.Here
	how(&here)
	j.apply(logRecord{Host: &here})
	j.mu.Unlock()
	return j.log.flush(true)
}

// define replaces the job's definition. Slots of a new schedule count from now on, and that is on
// disk before the first of them: if no daemon runs then, it was missed.
func (j *jobControl) define(job *Job, now time.Time) error {
	j.mu.Lock()
	j.job = job
	here, schedule := j.state.Here, job.Schedule.String()
	j.mu.Unlock()
	if here.Schedule == schedule && (!here.Expected.IsZero() || job.ExpectSuccess == 0) {
		return nil
	}
	return j.setHere(func(h *hostFacts) {
		if here.Schedule == "" || here.Expected.IsZero() { // it is new, or was put back
			h.Expected = now
		}
		if here.Schedule != schedule {
			h.Since, h.Schedule = now, schedule
		}
	})
}

// retire records that the job is not configured any more: it misses nothing.
func (j *jobControl) retire() error {
	j.mu.Lock()
	configured := j.state.Here.Schedule != ""
	j.mu.Unlock()
	if !configured {
		return nil
	}
	return j.setHere(func(h *hostFacts) { h.Schedule = "" })
}

// slot is the last one whose fate this host knows. What lies too far ahead of the clock is none. The
// caller holds mu.
func (j *jobControl) slot(now time.Time) time.Time {
	slot := quota.Later(notAhead(j.state.Slot, now), notAhead(j.state.Here.Since, now))
	if s := j.state.Skips; s != nil {
		slot = quota.Later(slot, notAhead(s.LastSlot, now))
	}
	return slot
}

// underWay returns the executor of the run under way, or nil.
func (j *jobControl) underWay() *executor {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.executor
}

// current returns the job's definition.
func (j *jobControl) current() *Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.job
}

// cursor is where the next run begins, given the run under way. The caller holds mu.
func (j *jobControl) cursor() regions.Cursor {
	cursor, _ := j.state.next()
	return cursor
}

// last returns the last run of the job on this host, under way or over, or nil. The caller holds mu.
func (j *jobControl) last() *Run {
	if j.executor != nil {
		return j.executor.show()
	}
	return j.state.Last.copy()
}

func (j *jobControl) lastRun() *Run {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last()
}

// endLeftovers ends the processes that a killed daemon left running. Until another run begins, each start does.
func (j *jobControl) endLeftovers(ctx context.Context, end func(context.Context, Identity, time.Duration) (bool, error)) error {
	last := j.lastRun()
	if last == nil {
		return nil
	}
	var trouble []error
	for _, p := range last.Passes {
		if p.Process == nil {
			continue
		}
		if _, err := end(ctx, *p.Process, j.current().KillGrace); err != nil {
			trouble = append(trouble, fmt.Errorf("a daemon that was killed left a process: %w", err))
		}
	}
	return errors.Join(trouble...)
}

// An executor is a run under way on this host: it launches a pass at each region of its ring, until the
// ring is through or something stops it.
type executor struct {
	runner  *Runner
	control *jobControl
	job     *Job // as it was when the run began
	run     *Run // its passes and its end may change: the job's mu guards these
	output  *runOutput

	budget *runBudget

	// The passes to come; the job's mu guards these.
	rest    []regions.Region // of the ring, or of those that failed
	due     time.Time        // when the first of the rest is, by the monotonic clock: the other may be set
	stagger time.Duration
	again   []regions.Region       // to be served again before, after a limit has stopped them,
	times   map[regions.Region]int // and how often they were
	retries int                    // of the regions that failed, still to come
	pause   Pace                   // what the run waited for last,
	resumes time.Time              // and until when, by the monotonic clock
	busy    int                    // passes under way
	wake    chan struct{}          // signalled when one is over, or lacks nothing any more

	// More passes may begin until launching ends. Those under way are asked to end when ask ends, and
	// end at once when force does.
	launching, ask, force context.Context
	halt                  context.CancelCauseFunc // launches nothing more
	end                   context.CancelCauseFunc // launches nothing more, and asks the passes under way to end
	kill                  context.CancelCauseFunc // ends passes that were asked to end at once

	done chan struct{} // closed when the next run may begin
}

// newExecutor returns the executor of a run, with the run as it will begin. The caller holds mu.
func (r *Runner) newExecutor(j *jobControl, run *Run) *executor {
	run.Job, run.StartedAt, run.State = j.name, r.now(), RunRunning
	run.UnitsPerRun, run.Retry = j.job.UnitsPerRun, j.job.Retry
	if !run.Chosen {
		run.Ring = j.job.Regions.From(j.cursor())
	}
	e := &executor{
		runner: r, control: j, job: j.job, run: run, times: map[regions.Region]int{},
		output: &runOutput{run: run.ID},
		rest:   run.Ring, retries: run.Retry,
		done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	e.budget = &runBudget{max: run.UnitsPerRun, free: e.wake}
	e.ask, e.end = context.WithCancelCause(context.Background())
	e.force, e.kill = context.WithCancelCause(context.Background())
	e.launching, e.halt = context.WithCancelCause(e.ask)
	begins := run.Slot
	if e.job.After != "" { // it has waited
		begins = run.StartedAt
	}
	e.due = time.Now().Add(begins.Sub(run.StartedAt))
	if run.Trigger != Manual { // an operator waits for a manual run
		e.stagger = e.job.stagger(begins, len(run.Ring))
	}
	if r.config.Hosts != nil {
		run.Host = r.config.Name
	}
	return e
}

// show returns a copy of the executor's run with what its passes under way have done until now; nil
// of no executor. The caller holds the job's mu.
func (e *executor) show() *Run {
	if e == nil {
		return nil
	}
	run := e.run.copy()
	if pause := e.pause; pause.Until.After(e.runner.now()) {
		run.Waits = &pause
	}
	for i := range run.Passes {
		p := &run.Passes[i]
		if p.Outcome != Running {
			continue
		}
		spent := e.runner.config.Tokens.spent(p.token)
		p.Units, p.Calls, p.token = spent.Units, spent.Calls, ""
		p.Tail, _ = e.output.tail(p.Region, p.from)
		if p.Process != nil {
			p.PID = p.Process.PID
		}
	}
	return run
}

// passesOver is how many passes of the run are over, or more if the run is.
func (e *executor) passesOver() int {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	if e.control.executor != e {
		return math.MaxInt
	}
	return e.run.over()
}

// doubt returns what is wrong with the clock; empty: nothing. The caller holds mu.
func (j *jobControl) doubts(now time.Time) (clock string) {
	if ahead := j.state.ahead(now); !ahead.IsZero() {
		clock = fmt.Sprintf("the clock was set back: what is recorded for %v counts no more, that is %v ahead",
			ahead.UTC().Format(time.RFC3339), ahead.Sub(now).Round(time.Second))
	}
	return clock
}
