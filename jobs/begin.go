package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A slotClaim is this host's attempt to run a slot of a job that other hosts may want, too. The
// first host that appends how a run of the slot begins, or why none does, has claimed it.
type slotClaim struct {
	*Runner
	control *jobControl
	trigger Trigger
	slot    time.Time
	id      string // of the run with which the slot begins
	unsure  bool   // it may have begun: the outcome is unknown
}

// tick runs a job's slot in the background: it may have to wait for a host.
func (r *Runner) tick(j *jobControl, trigger Trigger, slot time.Time) {
	c := &slotClaim{Runner: r, control: j, trigger: trigger, slot: slot}
	r.goUnlessStopping(c.decide) // else this slot counts as missed at the next start
}

// decide runs the slot, skips it for a reason, or finds out that another host has claimed it. While
// that is unknown, the slot is skipped, and tried again for as long as it may be made up for.
func (c *slotClaim) decide(ctx context.Context) {
	err := c.attempt(ctx)
	if err == nil || ctx.Err() != nil {
		return
	}
	c.skipUndecided(err)
	const longest = 15 * time.Second
	for pause := time.Second; err != nil && sleep(ctx, pause) && c.control.current().mayMakeUp(c.slot, c.now()); pause = min(2*pause, longest) {
		if c.trigger == Scheduled {
			c.trigger = CatchUp
		}
		err = c.attempt(ctx)
	}
	if c.unsure {
		c.disown(c.control, c.id)
	}
}

// attempt returns nil once it is decided what becomes of the slot.
func (c *slotClaim) attempt(ctx context.Context) error {
	if !c.unsure {
		c.id = NewRunID(c.now())
	}
	_, err := c.begin(ctx, c.control, Run{ID: c.id, Trigger: c.trigger, Slot: c.slot}, c)
	if errors.Is(err, errClaimed) {
		err = nil
	}
	c.unsure = errors.Is(err, quota.ErrOutcomeUnknown) || c.unsure && err != nil // until the log can be read
	return err
}

// gap returns the slots before this one that no host has claimed, or errClaimed if this one is
// claimed. The run at a start is one for the latest scheduled slot, unless that has had a run
// which no shutdown interrupted: so all hosts together make one. The caller holds mu.
func (c *slotClaim) gap() (missed Run, err error) {
	j := c.control
	taken := !c.slot.After(j.state.Slot)
	if c.trigger == AtStart {
		taken = !Latest(j.job.Schedule, c.slot).After(j.state.Slot) && !j.state.Last.isUnfinished()
	}
	if taken {
		return Run{}, errClaimed
	}
	if h := j.hosts; h != nil && !h.clock.IsZero() {
		off := c.slot.Sub(h.clock)
		if off > claimMargin || -off > spanOf(j.job, c.slot) {
			return Run{}, fmt.Errorf("slot %v of job %q is %v away by the clock of the hosts' log: is the clock of this host right?",
				c.slot, j.name, off.Abs().Round(time.Second))
		}
	}
	return gapBetween(j.job.Schedule, j.slot(), c.slot), nil
}

// as returns the slot as one that does not become a run.
func (c *slotClaim) as(reason Reason, detail string) Run {
	return Run{Ticks: 1, Slot: c.slot, LastSlot: c.slot, Reason: reason, Detail: detail}
}

// skipUndecided records that what becomes of the slot is unknown. It is not missed.
func (c *slotClaim) skipUndecided(why error) {
	var skipped []*Run
	c.trouble(c.control.name, c.control.update(true, false, func() (list []record) {
		skipped, list = c.control.skip(c.now(), c.as(LedgerUnavailable, why.Error()))
		here := c.control.here // a run of another slot, or an operator's, replaces Skips
		here.Since = latest(here.Since, c.slot)
		return append(list, record{Host: &here})
	}))
	c.reportSkipped(c.control, skipped)
}

// skipMissed records the slots that no host claimed. If the other hosts cannot be asked, the
// claim of the next slot does.
func (r *Runner) skipMissed(ctx context.Context, j *jobControl, missed func() Run) {
	var skipped []*Run
	writeErr, err := j.decide(ctx, func() (list []record, err error) {
		skipped, list = j.skip(r.now(), missed())
		return list, nil
	}, nil)
	r.trouble(j.name, writeErr)
	if err == nil {
		r.reportSkipped(j, skipped)
	}
}

func (r *Runner) reportSkipped(j *jobControl, list []*Run) {
	for _, run := range list {
		r.config.OnEvent(RunChanged{*run.copy(), j.current().Schedule.Next(r.now())})
	}
}

// skip returns the records of slots that do not become a run, of which Slot, LastSlot, Ticks and
// the reason are given; those without ticks are none. Slots that follow one another for the same
// reason share a record. The caller holds mu.
func (j *jobControl) skip(now time.Time, slots ...Run) (skipped []*Run, list []record) {
	known := j.state.Skips
	for _, run := range slots {
		if run.Ticks == 0 {
			continue
		}
		if known != nil && known.Reason == run.Reason {
			ticks, last, detail := run.Ticks, run.LastSlot, run.Detail
			run = *known.copy()
			run.Ticks, run.LastSlot, run.Detail = run.Ticks+ticks, last, detail
		} else {
			run.ID, run.Job, run.Trigger, run.State, run.StartedAt = NewRunID(now), j.name, Scheduled, RunSkipped, now
		}
		run.EndedAt = now
		known = &run
		skipped, list = append(skipped, known), append(list, record{Run: known})
	}
	return skipped, list
}

// spanOf is how long after a slot a host may claim it: to make up for it, or at least until
// the next one.
func spanOf(j *Job, slot time.Time) time.Duration {
	span := time.Duration(0)
	if j.CatchUp {
		span = maxCatchUp
	}
	if next := j.Schedule.Next(slot); !next.IsZero() {
		span = max(span, next.Sub(slot))
	}
	return span + claimMargin
}

// begin begins a run of which the ID, the trigger, the slot and what an operator chose are given.
// It returns the run as it began, which continues. A run of the job that is under way prevents
// that, unless its host is dead. A claim, which may be nil, takes the slot, and waits for the end
// of a run on another host for as long as it takes to find that out. If the run is still prevented
// then, the slot is skipped.
func (r *Runner) begin(ctx context.Context, j *jobControl, run Run, claim *slotClaim) (begun Run, err error) {
	waited := false
	for w := (waiting{job: j, patient: claim != nil}); ; {
		var b beginning
		writeErr, err := j.decide(context.WithoutCancel(ctx), func() (list []record, err error) {
			b, list, err = r.plan(j, run, claim, waited)
			return list, err
		}, func() {
			if b.executor == nil {
				return
			}
			j.state.Last, j.executor = b.executor.run, b.executor
			if r.isStopping() { // by now
				b.executor.halt(ErrShutdown)
			}
		})
		if held, is := errors.AsType[*heldError](err); is {
			if waited = !w.wait(ctx, held); !waited || claim != nil {
				continue
			}
		}
		if err != nil {
			if errors.Is(err, quota.ErrOutcomeUnknown) && claim == nil {
				r.disown(j, run.ID)
			}
			return Run{}, fmt.Errorf("job %q: %w", j.name, err)
		}
		r.trouble(j.name, writeErr)
		r.reportSkipped(j, b.skipped)
		if b.executor != nil {
			begun = *b.executor.run.copy()
			b.executor.start()
		}
		return begun, nil
	}
}

// A beginning is a run that is about to begin, or slots that do not become one.
type beginning struct {
	executor *executor // nil: the slot is skipped
	skipped  []*Run
}

// plan returns a run as it will begin, or a slot that is skipped, and the records that say so.
// Waited says that the end of a run under way was waited for. The caller holds mu.
func (r *Runner) plan(j *jobControl, run Run, claim *slotClaim, waited bool) (b beginning, list []record, err error) {
	unsure := j.executor == nil && j.state.Last != nil && j.state.Last.ID == run.ID
	var missed, slot Run
	if claim != nil {
		if missed, err = claim.gap(); err != nil && !unsure {
			return b, nil, err
		}
	}
	switch held, over := j.held(); {
	case r.isStopping() && (claim == nil || unsure):
		return b, nil, ErrStopping
	case r.isStopping():
		slot = claim.as(Shutdown, "")
	case unsure:
	case claim != nil && j.state.Pause.Active(r.now()):
		slot = claim.as(Paused, "")
	case held != nil && !waited:
		return b, nil, held
	case held != nil:
		slot = claim.as(Overlap, fmt.Sprintf("job %q: %v", j.name, held))
	default:
		list = over
	}
	skipped, more := j.skip(r.now(), missed, slot)
	b.skipped, list = skipped, append(list, more...)
	if slot.Ticks == 0 {
		b.executor = r.newExecutor(j, &run)
		list = append(list, record{Run: &run, Terms: b.executor.terms})
	}
	return b, list, nil
}

// disown records the end of a run whose beginning has an unknown outcome: this host does not
// continue it.
func (r *Runner) disown(j *jobControl, id string) {
	end := ending{At: r.now(), State: RunInterrupted, Reason: LedgerUnavailable}
	r.trouble(j.name, j.update(false, true, func() []record { return []record{{ID: id, End: &end}} }))
}

// newExecutor returns the executor of a run, with the run as it will begin. The caller holds mu.
func (r *Runner) newExecutor(j *jobControl, run *Run) *executor {
	run.Job, run.Host, run.StartedAt, run.State = j.name, r.config.Host, r.now(), RunRunning
	run.UnitsPerRun, run.Retry = j.job.UnitsPerRun, j.job.Retry
	if !run.Chosen {
		run.Ring = j.job.Regions.From(j.cursor())
	}
	e := &executor{
		runner: r, control: j, job: j.job, run: run, budget: &runBudget{max: run.UnitsPerRun, free: make(chan struct{}, 1)},
		live: map[passName]*livePass{}, pacing: pacing{times: map[regions.Region]int{}},
		places: make(chan struct{}, max(1, j.job.Parallel)),
		over:   make(chan struct{}), published: make(chan struct{}), done: make(chan struct{}),
	}
	e.ask, e.end = context.WithCancelCause(context.Background())
	e.force, e.kill = context.WithCancelCause(context.Background())
	e.launching, e.halt = context.WithCancelCause(e.ask)
	if run.Trigger != Manual { // an operator waits for a manual run
		e.stagger = e.job.stagger(run.Slot, len(run.Ring))
	}
	if j.hosts != nil {
		e.terms = &terms{Lease: leaseTime(e.job.Schedule, r.now()), Credential: e.job.Credential, Expects: e.job.Expects}
	}
	return e
}

// start starts the goroutines of a run that has begun.
func (e *executor) start() {
	e.runner.config.OnEvent(RunChanged{Run: *e.run.copy()})
	if e.control.hosts != nil {
		e.runner.background.Go(e.publish)
	} else {
		close(e.published)
	}
	go e.loop()
}
