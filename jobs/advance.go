package jobs

import (
	"context"
	"slices"
	"sync"
	"time"

	"quotad/regions"
)

// An executor is a run under way on this host: it launches a pass at each region of its ring, until the
// ring is through or something stops it.
type executor struct {
	runner  *Runner
	control *jobControl
	job     *Job // as it was when the run began
	run     *Run // its passes and its end may change: the job's mu guards these
	stagger time.Duration
	live    map[passName]*livePass // those under way; the job's mu guards it
	bad     []failing              // among hosts: the regions that failed before it
	moved   chan struct{}          // among hosts: holds one when a pass is over

	budget *runBudget
	pacing pacing // the job's mu guards it

	places chan struct{} // one for each pass that may be under way
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
		runner: r, control: j, job: j.job, run: run, budget: &runBudget{max: run.UnitsPerRun, free: make(chan struct{}, 1)},
		live: map[passName]*livePass{}, pacing: pacing{times: map[regions.Region]int{}},
		places: make(chan struct{}, max(1, j.job.Parallel)), done: make(chan struct{}), moved: make(chan struct{}, 1),
	}
	e.ask, e.end = context.WithCancelCause(context.Background())
	e.force, e.kill = context.WithCancelCause(context.Background())
	e.launching, e.halt = context.WithCancelCause(e.ask)
	if run.Trigger != Manual { // an operator waits for a manual run
		e.stagger = e.job.stagger(run.Slot, len(run.Ring))
	}
	if j.share != nil {
		_, run.Host = r.config.Host()
		known := j.state.known()
		e.bad = known.Bad.Is
	}
	return e
}

// start starts the goroutine of a run that has begun.
func (e *executor) start() {
	e.runner.config.OnEvent(RunChanged{Run: *e.run.copy()})
	go e.loop()
}

// loop goes through the ring, and then again through the regions that failed, as often
// as the job wants. It returns when the last pass is over.
func (e *executor) loop() {
	var holding sync.WaitGroup
	held, letGo := context.WithCancel(context.Background())
	if e.control.share != nil {
		holding.Go(func() { e.hold(held) })
	}
	e.round(e.run.Ring, true)
	for again := 0; again < e.job.Retry && e.launching.Err() == nil; again++ {
		e.round(e.failed(), false)
	}
	letGo()
	holding.Wait()
	e.finish(context.Cause(e.launching))
	e.end(nil)
	e.kill(nil)
	close(e.done)
}

// round launches a pass at each region of a list, only if the gate lets it: each at its
// time in the first round, one after the other in later ones. Regions that the run paused for
// are served in between.
func (e *executor) round(list []regions.Region, timed bool) {
	var passes sync.WaitGroup
	defer passes.Wait()
	for i := 0; ; {
		if i == len(list) && !e.servesAgain() {
			if passes.Wait(); !e.servesAgain() {
				return
			}
		}
		if timed && i < len(list) && !sleep(e.launching, regions.Start(e.run.Slot, e.stagger, i).Sub(e.runner.now())) || !e.ready() {
			return
		}
		p, again := e.next(list[i:])
		if !again {
			i++
		}
		token, ok := e.admit(p)
		if !ok {
			e.leave()
			continue
		}
		passes.Go(func() {
			defer e.leave()
			e.pass(p, token)
		})
	}
}

// next returns the next pass: of a region that is served again, or else of the list's first one.
func (e *executor) next(list []regions.Region) (p Pass, again bool) {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	if again = len(e.pacing.again) > 0; again {
		list, e.pacing.again = e.pacing.again, e.pacing.again[1:]
	}
	p.Region = list[0]
	p.Attempt = e.run.attempts(p.Region)
	return p, again
}

// failed returns the regions that failed, also when they were tried again.
func (e *executor) failed() (list []regions.Region) {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	for _, p := range e.run.Failed() {
		list = append(list, p.Region)
	}
	return list
}

// sleep waits, if there is anything to wait for, and returns whether ctx let it.
func sleep(ctx context.Context, wait time.Duration) bool {
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// ready waits until the run pauses for no limit and none of its passes lacks what it was refused, and
// then for a place among its passes. It returns whether the run may launch. A run that waits holds
// no units.
func (e *executor) ready() bool {
	for e.isFree() && sleep(e.launching, e.pauseLeft()) {
		if !occupy(e.launching, e.places) {
			return false
		}
		if e.pauseLeft() <= 0 && !e.runner.config.Tokens.isRefused(e.budget) && e.mayLaunch() {
			return true
		}
		e.leave() // a pass that was over meanwhile has met a limit
	}
	return false
}

// isFree waits until no pass of the run lacks what it was refused: one that waits until it fits, as
// clients do that obey Retry-After, may be granted it. It returns whether the run may launch.
func (e *executor) isFree() bool {
	for e.runner.config.Tokens.isRefused(e.budget) {
		select {
		case <-e.budget.free:
		case <-e.launching.Done():
			return false
		}
	}
	return true
}

func (e *executor) leave() {
	<-e.places
}

// occupy waits for one of the places, and returns whether ctx let it.
func occupy(ctx context.Context, places chan struct{}) bool {
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if ctx.Err() != nil { // both at once: the place came with the end of the last pass, and so did the stop
		<-places
		return false
	}
	return true
}

// A pacing is what a run knows of limits that return soon.
type pacing struct {
	pause Pace             // what the run waits for last
	again []regions.Region // to be served again
	times map[regions.Region]int
}

// maxAgain is how often a run serves a region again after a limit has stopped it.
const maxAgain = 3

// putBack has a region be served before all others.
func (e *executor) putBack(region regions.Region) {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	e.pacing.again = slices.Insert(e.pacing.again, 0, region)
}

// servesAgain returns whether a region is to be served again.
func (e *executor) servesAgain() bool {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	return len(e.pacing.again) > 0
}

// pauseLeft is how long the run still waits for a limit.
func (e *executor) pauseLeft() time.Duration {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	return e.pacing.pause.Until.Sub(e.runner.now())
}

// waitFor has the run wait for a limit, if the job waits that long.
func (e *executor) waitFor(limit string, until time.Time) bool {
	const shortest = 10 * time.Millisecond // the clocks of host and ledger may differ
	now := e.runner.now()
	if !e.job.WaitsFor(until, now) {
		return false
	}
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	if until = latest(until, now.Add(shortest)); until.After(e.pacing.pause.Until) {
		e.pacing.pause = Pace{Limit: limit, Until: until}
	}
	return true
}

// comesAgain returns whether this run serves the region of a pass again that a limit has stopped, once that has
// returned: from the bookmark that the pass left, else from its start. A pass that had something from
// the limit and left no new bookmark, which was mark before, is repeated once.
func (e *executor) comesAgain(p *Pass, spent Record, mark string) bool {
	left := e.control.bookmark(p.Region)
	limit := spent.Limit
	if spent.Closed != "" && !spent.Denied {
		limit = spent.Closed
	}
	if spent.Past != "" || limit == "" || spent.RetryAt.IsZero() {
		return false
	}
	repeats := spent.Calls > 0 && (left == "" || left == mark)
	e.control.mu.Lock()
	times := e.pacing.times[p.Region]
	e.control.mu.Unlock()
	until := spent.RetryAt
	if (times > 0 || repeats) && !spent.WholeAt.IsZero() && e.job.WaitsFor(spent.WholeAt, e.runner.now()) {
		until = spent.WholeAt // call by call it returns too slowly
	}
	if times == maxAgain || repeats && times > 0 || !e.waitFor(limit, until) {
		return false
	}
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	e.pacing.times[p.Region]++
	e.pacing.again = append(e.pacing.again, p.Region)
	return true
}

// advance returns where the next run begins after this one, and how many runs in a row have run dry
// there, given both before it.
func (r *Run) advance(cursor regions.Cursor, dry int) (regions.Cursor, int) {
	if r.Chosen || len(r.Ring) == 0 {
		return cursor, dry
	}
	return r.Ring.Advance(r.hadTurn), r.dryAfter(dry)
}

// hadTurn returns whether a region of the run had its turn, so that the next run begins after it.
func (r *Run) hadTurn(region regions.Region) bool {
	return r.hasPass(region, func(p *Pass) bool { return p.Outcome.Served() || p.Yields })
}

// yields returns whether a pass has kept the turn for too long: dry runs in a row have stopped at
// its region before. A region that needs more than returns between two runs would keep it for
// ever: each run would spend what has returned on the same beginning of its work, and the other
// regions would starve. A pass that is denied at once does not count: nothing had returned then.
func (r *Run) yields(p Pass, dry int) bool {
	return p.Region == r.Ring[0] && p.ranDry() && dry+1 >= patience
}

// patience is how many runs in a row may begin at one region and run dry there.
const patience = 3

// dryAfter is how many runs in a row have run dry at their beginning, if it was dry
// before this one.
func (r *Run) dryAfter(dry int) int {
	first := r.Ring[0]
	switch {
	case r.hadTurn(first):
		return 0
	case r.hasPass(first, (*Pass).ranDry):
		return dry + 1
	}
	return dry
}

func (p *Pass) ranDry() bool { return p.Outcome == Exhausted && (p.Units > 0 || !p.Denied) }
