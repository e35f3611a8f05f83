package jobs

import (
	"context"
	"math"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// An executor is a run under way on this host: it launches a pass at each region of its ring, one after the other, until
// the ring is through or something stops it.
type executor struct {
	runner  *Runner
	control *jobControl
	job     *Job // as it was when the run began
	run     *Run // its passes and its end may change: the job's mu guards these
	output  *runOutput
	began   time.Time // by the monotonic clock
	late    int       // how many slots in a row had overlapped before it
	dry     int       // how many runs in a row have run dry where this one began

	// A pass may begin until launching ends. The one under way is asked to end when ask ends. Stop ends both.
	launching, ask context.Context
	stop           func(cause error)

	over    bool      // the next run may begin; the job's mu guards it, and
	pause   Stop      // what the run waits for,
	resumes time.Time // until when, by the monotonic clock: the other may be set; zero: it does not wait
}

// newExecutor returns the executor of a run, with the run as it will begin. The caller holds mu.
func (r *Runner) newExecutor(j *jobControl, run *Run) *executor {
	run.Job, run.StartedAt, run.State, run.Retry = j.name, r.now(), RunRunning, j.job.Retry
	run.ID = newRunID(run.StartedAt)
	if !run.Chosen {
		run.Ring = j.job.Regions.From(j.state.Cursor)
	}
	if r.config.Hosts != nil {
		run.Host = r.config.Name
	}
	e := &executor{
		runner: r, control: j, job: j.job, run: run, output: &runOutput{}, began: time.Now(),
		dry: j.state.Dry, late: j.state.Overlaps,
	}
	launching, halt := context.WithCancelCause(r.stopping)
	ask, end := context.WithCancelCause(r.asked)
	e.launching, e.ask, e.stop = launching, ask, func(cause error) { halt(cause); end(cause) }
	return e
}

// loop serves the ring, and then the regions that failed, as often as the job wants that, until something stops the run.
func (e *executor) loop() {
	begins := quota.Later(e.run.Slot, e.run.StartedAt) // a timer may come early
	stagger := time.Duration(0)
	if e.run.Trigger != Manual { // an operator waits for a manual run
		stagger = e.job.StaggerWithin(e.job.Schedule.Next(begins).Sub(begins), len(e.run.Ring))
	}
	halt := e.serve(e.run.Ring, e.began.Add(begins.Sub(e.run.StartedAt)), stagger)
	for left := e.run.Retry; left > 0 && halt == nil; left-- {
		halt = e.retry()
	}
	e.finish(halt)
	e.stop(nil)
}

// serve launches a pass at each of some regions, the first one when it is due. One that a limit has stopped, and that the
// run waits for, is served again before the next. It returns why the run launches nothing more, nil if it continues.
func (e *executor) serve(list []regions.Region, due time.Time, stagger time.Duration) error {
	for _, region := range list {
		halt := e.await(due)
		due = due.Add(stagger)
		for halt == nil {
			if halt = e.pass(region); e.resumes.IsZero() {
				break
			}
			halt = e.await(e.resumes)
		}
		if halt != nil {
			return halt
		}
	}
	return nil
}

// retry serves the regions that failed again, after RetryAfter, unless the next slot comes before.
func (e *executor) retry() error {
	now, after := e.runner.now(), e.job.RetryAfter
	next := e.job.Schedule.Next(now)
	if after > 0 && !next.IsZero() && !now.Add(after).Before(next) {
		return nil
	}
	var list []regions.Region
	e.control.mu.Lock()
	for _, p := range e.run.Failed() {
		list = append(list, p.Region)
	}
	e.control.mu.Unlock()
	if after > 0 && len(list) > 0 {
		e.waits(Stop{RetryAt: now.Add(after)}, after)
	}
	return e.serve(list, e.resumes, 0)
}

// waits has the run wait from now on.
func (e *executor) waits(pause Stop, length time.Duration) {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	e.pause, e.resumes = pause, time.Now().Add(length)
}

// waitsFor has the run wait for a limit that has stopped a region, to serve it then, if the job waits that long.
func (e *executor) waitsFor(limit string, until time.Time) bool {
	const shortest = 10 * time.Millisecond // the clocks of host and ledger may differ
	now := e.runner.now()
	if !e.job.waitsFor(until, now) {
		return false
	}
	until = quota.Later(until, now.Add(shortest))
	e.waits(Stop{Limit: limit, RetryAt: until}, until.Sub(now))
	return true
}

// await waits until an instant of the monotonic clock, and returns why the run launches nothing more, or nil. A run that
// waits holds no units.
func (e *executor) await(at time.Time) error {
	quota.Sleep(e.launching, time.Until(at))
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	e.resumes = time.Time{}
	return context.Cause(e.launching)
}

// finish records how the run ended, and makes the job free for the next one. Cause is why it
// launched nothing more, nil if nothing was in its way.
func (e *executor) finish(cause error) {
	j := e.control
	j.mu.Lock()
	state, why := e.run.ending(cause)
	e.run.end(e.run.StartedAt.Add(time.Since(e.began)), state, why)
	j.state.end(e.run)
	if j.state.Overlaps == e.late && e.run.Trigger != Manual {
		j.state.Overlaps = 0
	}
	e.over = true
	run := e.run.copy()
	j.endedRuns = append(j.endedRuns, runsLine{Run: new(run.head())})
	j.mu.Unlock()
	e.runner.trouble(j.name, j.save())
	e.runner.changed(e.job, run)
}

// underWay returns whether the run, if there is one, is under way. The caller holds the job's mu.
func (e *executor) underWay() bool { return e != nil && !e.over }

// show returns a copy of the run with what its pass under way has done until now. The caller holds the job's mu.
func (e *executor) show() *Run {
	run := e.run.copy()
	if !e.resumes.IsZero() {
		run.Waits = new(e.pause)
	}
	if p := run.underWay(); p != nil {
		spent := e.runner.config.Tokens.spent(p.token)
		p.Units, p.Calls, p.token = spent.Units, spent.Calls, ""
		p.Tail, _ = e.output.tail(p.from)
		if p.Process != nil {
			p.PID = p.Process.PID
		}
	}
	return run
}

// kept returns the run as the state keeps it: with the pass under way alone. The caller holds the job's mu.
func (e *executor) kept() *Run {
	run := e.run.head()
	if p := e.run.underWay(); p != nil {
		run.Passes = []Pass{*p}
	}
	if !run.Chosen {
		run.Ring = nil
	}
	return &run
}

// passesOver is how many passes of the run are over, or more if the run is.
func (e *executor) passesOver() int {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	n := len(e.run.Passes)
	switch {
	case e.over:
		return math.MaxInt
	case e.run.underWay() != nil:
		return n - 1
	}
	return n
}
