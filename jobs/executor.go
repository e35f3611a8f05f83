package jobs

import (
	"context"
	"math"
	"sync"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// An executor is a run under way on this host: it launches a pass at each region of its ring, until the
// ring is through or something stops it.
type executor struct {
	runner  *Runner
	control *jobControl
	job     *Job // as it was when the run began
	run     *Run // its passes and its end may change: the job's mu guards these
	output  *runOutput
	began   time.Time // by the monotonic clock
	late    int       // how many slots in a row had overlapped before it
	dry     int       // how many runs in a row have run dry where this one began
	open    int       // the passes before this one are over; the job's mu guards it, and
	over    bool      // that the next run may begin

	// The passes to come; the job's mu guards these.
	rest    []regions.Region // of the ring, or of those that failed
	due     time.Time        // when the first of the rest is, by the monotonic clock: the other may be set
	stagger time.Duration
	again   []regions.Region // to be served again before, after a limit has stopped them
	retries int              // of the regions that failed, still to come
	pause   Stop             // what the run waited for last,
	resumes time.Time        // and until when, by the monotonic clock
	busy    int              // passes under way
	wake    chan struct{}    // signalled when one is over

	// More passes may begin until launching ends. Those under way are asked to end when ask ends.
	launching, ask context.Context
	halt, end      context.CancelCauseFunc
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
		rest: run.Ring, retries: run.Retry, wake: make(chan struct{}, 1),
	}
	e.launching, e.halt = context.WithCancelCause(r.stopping)
	e.ask, e.end = context.WithCancelCause(r.asked)
	begins := quota.Later(run.Slot, run.StartedAt) // a timer may come early
	e.due = e.began.Add(begins.Sub(run.StartedAt))
	if run.Trigger != Manual { // an operator waits for a manual run
		e.stagger = e.job.StaggerWithin(e.job.Schedule.Next(begins).Sub(begins), len(run.Ring))
	}
	return e
}

const (
	through   time.Duration = -1            // the run has no further pass
	untilWake time.Duration = math.MaxInt64 // until a pass is over
)

// loop launches one pass after the other, only if the gate lets it, until the run is through or something stops
// it. It returns when the last pass is over.
func (e *executor) loop() {
	var passes sync.WaitGroup
	for e.launching.Err() == nil {
		p, wait := e.next()
		if wait == through {
			break
		}
		if wait > 0 {
			quota.Await(e.launching, wait, e.wake)
		} else if token, ok := e.admit(p); ok {
			passes.Go(func() {
				defer e.leave()
				e.pass(p, token)
			})
		} else {
			e.leave()
		}
	}
	passes.Wait()
	e.finish(context.Cause(e.launching))
	e.halt(nil)
	e.end(nil)
}

// next decides which pass is next: of a region that is served again, else of the ring's next one at its time, and
// then of those that failed, as often as the job wants. That it is under way is counted already. If none
// may be launched yet, wait is for how long. A run that waits holds no units.
func (e *executor) next() (p Pass, wait time.Duration) {
	const often = 100 * time.Millisecond
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	if len(e.again)+len(e.rest)+e.busy == 0 && e.retries > 0 {
		e.retry()
	}
	switch all, now := len(e.again)+len(e.rest), time.Now(); {
	case all+e.busy == 0:
		return p, through
	case all == 0, e.busy == max(1, e.job.Parallel):
		return p, untilWake
	case e.runner.config.Tokens.isRefused(e.run.ID): // it may be granted that yet
		return p, often
	case now.Before(e.resumes):
		return p, e.resumes.Sub(now)
	case len(e.again) == 0 && now.Before(e.due):
		return p, e.due.Sub(now)
	case len(e.again) > 0:
		p.Region, e.again = e.again[0], e.again[1:]
	default:
		p.Region, e.rest, e.due = e.rest[0], e.rest[1:], e.due.Add(e.stagger)
	}
	p.Attempt = len(e.run.of(p.Region))
	e.busy++
	return p, 0
}

// retry has the regions that failed be served again after RetryAfter, unless the next slot comes before. The caller
// holds mu.
func (e *executor) retry() {
	now, after := e.runner.now(), e.job.RetryAfter
	e.retries, e.due = e.retries-1, time.Time{}
	failed := e.run.Failed()
	switch next := e.job.Schedule.Next(now); {
	case after > 0 && !next.IsZero() && !now.Add(after).Before(next):
		e.retries = 0
		return
	case after > 0 && len(failed) > 0:
		e.pause, e.resumes = Stop{RetryAt: now.Add(after)}, time.Now().Add(after)
	}
	for _, p := range failed {
		e.rest = append(e.rest, p.Region)
	}
}

// leave ends a pass that was counted as under way.
func (e *executor) leave() {
	e.control.mu.Lock()
	e.busy--
	e.control.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// waitsFor has the run wait for a limit that has stopped a region, and serve it then, if the job waits that long.
func (e *executor) waitsFor(limit string, until time.Time, region regions.Region) bool {
	const shortest = 10 * time.Millisecond // the clocks of host and ledger may differ
	now := e.runner.now()
	if !e.job.waitsFor(until, now) {
		return false
	}
	e.control.mu.Lock()
	if until = quota.Later(until, now.Add(shortest)); until.After(e.pause.RetryAt) {
		e.pause, e.resumes = Stop{Limit: limit, RetryAt: until}, time.Now().Add(until.Sub(now))
	}
	e.again = append(e.again, region)
	e.control.mu.Unlock()
	return true
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
	e.over, e.resumes = true, time.Time{}
	run := e.run.copy()
	j.ended = append(j.ended, runsLine{Run: new(run.head())})
	j.mu.Unlock()
	e.runner.trouble(j.name, j.save())
	e.runner.changed(e.job, run)
}

// underWay returns whether the run, if there is one, is under way. The caller holds the job's mu.
func (e *executor) underWay() bool { return e != nil && !e.over }

// show returns a copy of the run with what its passes under way have done until now. The caller holds the job's mu.
func (e *executor) show() *Run {
	run := e.run.copy()
	if time.Now().Before(e.resumes) {
		run.Waits = new(e.pause)
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

// kept returns the run as the state keeps it: with the passes under way alone. The caller holds the job's mu.
func (e *executor) kept() *Run {
	run := e.run.head()
	for e.open < len(e.run.Passes) && e.run.Passes[e.open].Outcome != Running {
		e.open++
	}
	for _, p := range e.run.Passes[e.open:] {
		if p.Outcome == Running {
			run.Passes = append(run.Passes, p)
		}
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
	if e.over {
		return math.MaxInt
	}
	return len(e.run.Passes) - e.run.Outcomes()[Running]
}
