package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// An executor runs a job over its ring: it launches a pass at each region, until the ring is
// through or something stops it. The methods are in the order of a run's life.
type executor struct {
	runner  *Runner
	control *jobControl
	job     *Job // as it was when the run began
	run     *Run // its passes and its end may change: the job's mu guards these
	stagger time.Duration
	live    map[passName]*livePass // those under way; the job's mu guards it

	terms  *terms // among hosts; else nil
	budget *runBudget
	pacing pacing // the job's mu guards it

	places chan struct{} // one for each pass that may be under way
	// More passes may begin until launching ends. Those under way are asked to end when ask ends, and
	// end at once when force does.
	launching, ask, force context.Context
	halt                  context.CancelCauseFunc // launches nothing more
	end                   context.CancelCauseFunc // launches nothing more, and asks the passes under way to end
	kill                  context.CancelCauseFunc // ends passes that were asked to end at once

	over      chan struct{} // closed when the run is over and recorded
	published chan struct{} // closed when the other hosts know that, or could not be reached at once
	done      chan struct{} // closed when the next run may begin
}

// loop goes through the ring, and then again through the regions that failed, as often
// as the job wants. It returns when the last pass is over.
func (e *executor) loop() {
	e.round(e.run.Ring, true)
	for again := 0; again < e.job.Retry && e.launching.Err() == nil; again++ {
		e.round(e.failed(), false)
	}
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
		if e.pauseLeft() <= 0 && !e.runner.config.Tokens.isRefused(e.budget) {
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

// admit asks the gate whether a pass can be afforded, and returns its token. Until that is revoked,
// what the pass is expected to spend is reserved. If it cannot be afforded, but could soon, the run
// waits, and then serves its region. Otherwise, or if the gate fails, the pass is recorded as skipped
// and the run stops: units are the next tick's business.
func (e *executor) admit(p Pass) (token string, ok bool) {
	if why := e.cannotAfford(); why != nil {
		e.skip(p, why)
		return "", false
	}
	config := &e.runner.config
	caller := quota.Caller{Job: e.job.Name, Region: string(p.Region), Run: e.run.ID, Attempt: p.Attempt, UID: -1}
	token = config.Tokens.issue(quota.Bearer{Caller: caller, Credential: e.job.Credential, UseReserve: e.job.UseReserve, MaxWait: e.job.MaxWait}, e.budget)
	if len(e.job.Expects) == 0 {
		return token, true
	}
	d, spokenFor, err := e.askGate(p, token)
	refused := config.Tokens.isRefused(e.budget) // meanwhile
	if err == nil && e.launching.Err() == nil && d.Granted() && !refused {
		return token, true
	}
	config.Tokens.revoke(token)
	switch {
	case e.launching.Err() != nil:
	case refused, err == nil && d.Denied() && e.waitFor(d.Limit, e.runner.now().Add(d.RetryAfter)):
		e.putBack(p.Region)
	case err != nil:
		e.skip(p, &stop{reason: LedgerUnavailable, detail: err.Error()})
	default:
		config.OnEvent(GateRefused{e.job.Credential, d})
		e.skip(p, refusal(d, spokenFor))
	}
	return "", false
}

// cannotAfford returns why the run's own units are not enough for another pass, nil if they are.
func (e *executor) cannotAfford() *stop {
	expected := e.runner.config.Gate.Cost(e.job.Credential, e.job.Calls())
	left := e.runner.config.Tokens.left(e.budget, expected)
	if left >= max(1, expected) {
		return nil
	}
	detail := fmt.Sprintf("the run has spent its %s", e.budget.max.Text())
	if left > 0 {
		detail = fmt.Sprintf("a pass expects %s, the run has %s of %s left", expected.Text(), quota.Thousands(left), quota.Thousands(e.budget.max))
	}
	return &stop{reason: RunCapExceeded, detail: detail}
}

// skip records that a pass was not launched, and stops the run there.
func (e *executor) skip(p Pass, why *stop) {
	p.Outcome, p.Reason, p.Detail, p.RetryAt = Skipped, why.reason, why.detail, why.retryAt
	p.StartedAt = e.runner.now()
	p.EndedAt = p.StartedAt
	e.record(p, why)
}

// pass launches one region's command and records what became of it.
func (e *executor) pass(p Pass, token string) {
	p.Outcome, p.StartedAt = Running, e.runner.now()
	p.Deadline = p.StartedAt.Add(e.job.Timeout)
	mark := e.control.bookmark(p.Region)
	command := e.command(p, token)
	e.record(p, nil)

	live := &livePass{token: token}
	e.goLive(p, live)
	command.Started = func(id Identity) { e.started(p, id) }
	ask, end := context.WithCancelCause(e.ask)
	defer end(nil)
	e.runner.config.Tokens.began(token, p.Deadline, e.job.DeniedGrace, func() { end(errDenied) })
	exit := e.launch(ask, command, func(line Line) {
		live.add(line)
		e.runner.config.OnEvent(Output{e.job.Name, e.run.ID, p, line})
	})

	e.goLive(p, nil)
	p.Made = e.runner.config.Tokens.made(token)
	spent := e.runner.config.Tokens.revoke(token)
	p.EndedAt, p.Process, p.Deadline = e.runner.now(), nil, time.Time{}
	p.Units, p.Calls, p.Denied, p.Tail = spent.Units, spent.Calls, spent.Denied, live.tail()
	p.Outcome, p.Detail = e.job.judge(exit, spent)
	if p.Outcome == Exhausted && !spent.Denied && spent.Closed == "" {
		p.Unanswered = spent.Unanswered
	}
	if p.Outcome.Failure() && spent.Refuses == "" && !spent.unserved() {
		p.Said = live.stderr
	}
	e.record(p, e.consequence(&p, exit, spent, mark))
	e.runner.config.Tokens.resume(e.budget, spent)
}

func (e *executor) command(p Pass, token string) Command {
	config := &e.runner.config
	contract := map[string]string{
		"QUOTAD_SOCKET":       config.Socket,
		"QUOTAD_TOKEN":        token,
		"QUOTAD_JOB":          e.job.Name,
		"QUOTAD_REGION":       string(p.Region),
		"QUOTAD_RUN_ID":       e.run.ID,
		"QUOTAD_CREDENTIAL":   e.job.Credential,
		"QUOTAD_SCHEDULED_AT": e.run.Slot.UTC().Format(time.RFC3339), // not the launch
		"QUOTAD_DEADLINE":     p.Deadline.UTC().Format(time.RFC3339),
	}
	if mark := e.control.bookmark(p.Region); mark != "" {
		contract["QUOTAD_BOOKMARK"] = mark
	}
	if proxy := config.Proxy(e.job.Credential, token); proxy != "" {
		contract["QUOTAD_PROXY"] = proxy
	}
	for _, v := range e.run.Set {
		name, value := v.inEnviron()
		contract[name] = value
	}
	return Command{
		Args: e.job.Command, Dir: e.job.Dir, Env: environ(config.Environ, e.job, contract),
		Timeout: e.job.Timeout, KillGrace: e.job.KillGrace,
		Secrets: append(slices.Clone(e.job.Secrets), token), // it stands in the address of the proxy, which errors show
	}
}

// launch runs the command of a pass in its working directory.
func (e *executor) launch(ask context.Context, c Command, output func(Line)) Exit {
	if e.job.MakeDir {
		if err := os.MkdirAll(c.Dir, 0o750); err != nil {
			return Exit{Err: fmt.Errorf("cannot make the working directory: %w", err), Code: -1}
		}
	}
	return e.runner.config.Launcher.Launch(ask, e.force, c, output)
}

// started records which process a pass is, for the next daemon to end it if this
// one is killed.
func (e *executor) started(p Pass, id Identity) {
	p.Process = &id
	e.runner.trouble(e.job.Name, e.control.update(false, false, func() []record { return []record{passRecord(e.run.ID, p)} }))
}

// consequence returns why the run launches nothing more after the pass, nil if it continues, and
// completes the pass with the reason. Mark is the bookmark that the pass began with.
func (e *executor) consequence(p *Pass, exit Exit, spent Record, mark string) error {
	switch p.Outcome {
	case Exhausted:
		p.RetryAt = spent.RetryAt
		if spent.Capped {
			return &stop{reason: RunCapExceeded, detail: p.Detail}
		}
		if e.comesAgain(p, spent, mark) {
			return nil
		}
		return &stop{reason: BudgetGone, detail: p.Detail, retryAt: p.RetryAt}
	case Interrupted:
		p.Reason = reasonOf(exit.Cause)
		return exit.Cause
	}
	if spent.Refuses != "" {
		return &stop{reason: UpstreamRefuses, detail: spent.Refuses}
	}
	return nil
}

// record records what is known of a pass: in the run, in its log, and as an event. One that is
// over is on disk on return. If halt is not nil, the run launches nothing more; its last pass may
// yield its region's turn.
func (e *executor) record(p Pass, halt error) {
	if halt != nil {
		e.halt(halt)
	}
	j := e.control
	var run Run
	e.runner.trouble(j.name, j.update(p.Outcome != Running, true, func() []record {
		if halt != nil && !e.run.Chosen {
			p.Yields = e.run.yields(p, j.state.Dry)
		}
		run = e.run.head()
		return []record{passRecord(e.run.ID, p)}
	}))
	e.runner.config.OnEvent(PassChanged{run, p})
}

// finish records how the run ended, and makes the job free for the next one. Cause is why it
// launched nothing more, nil if nothing was in its way.
func (e *executor) finish(cause error) {
	j := e.control
	var run Run
	err, _ := j.commit(true, true, func() ([]record, error) {
		return []record{{ID: e.run.ID, End: e.run.ending(e.runner.now(), cause)}}, nil
	}, func() { run, j.executor = *e.run.copy(), nil })
	e.runner.trouble(j.name, errors.Join(err, j.keepLog(run.EndedAt)))
	close(e.over)
	e.runner.config.OnEvent(RunChanged{run, e.job.Schedule.Next(run.EndedAt)})
	e.runner.checkSuccess()
	<-e.published
}
