package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A slotClaim is this host's attempt to have a slot of a job run, which other hosts may want,
// too. Who tells first that a run of the slot begins, or why none does, has claimed it.
type slotClaim struct {
	*Runner
	state   *jobControl
	trigger Trigger
	slot    time.Time
	id      string // of the run with which the slot begins
	unsure  bool   // it may have begun, and this host has not heard so
}

// tick has a job's slot run in the background: there may be a host to wait for.
func (r *Runner) tick(j *jobControl, trigger Trigger, slot time.Time) {
	if r.isStopping() {
		return // at the next start this slot counts as missed
	}
	if !j.arrive(slot) && trigger != AtStart {
		return
	}
	c := &slotClaim{Runner: r, state: j, trigger: trigger, slot: slot}
	r.goUnlessStopping(c.decide)
}

// decide runs the slot, or finds out that another host does. While nobody can
// tell, it is skipped, and asked about again for as long as it may be made up for.
func (c *slotClaim) decide(ctx context.Context) {
	err := c.attempt(ctx)
	if err == nil {
		return
	}
	if ctx.Err() != nil {
		_ = c.decline(ctx, Shutdown, nil)
		return
	}
	c.skipUndecided(err)
	const longest = 15 * time.Second
	for pause := time.Second; err != nil && c.mayWait(ctx, pause); pause = min(2*pause, longest) {
		if c.trigger == Scheduled {
			c.trigger = CatchUp
		}
		err = c.attempt(ctx)
	}
	if c.unsure {
		c.disown(c.state, c.id)
	}
}

// mayWait waits, and tells whether the slot is still to be made up for.
func (c *slotClaim) mayWait(ctx context.Context, pause time.Duration) bool {
	if !sleep(ctx, pause) {
		return false
	}
	return c.state.isAt(c.slot) && c.now().Sub(c.slot) <= c.state.current().MissedWithin
}

// attempt returns nil when it is decided what becomes of the slot.
func (c *slotClaim) attempt(ctx context.Context) error {
	if !c.unsure {
		c.id = NewRunID(c.now())
	}
	_, err := c.begin(ctx, c.state, runRequest{id: c.id, trigger: c.trigger, slot: c.slot, claim: c})
	c.unsure = isUnknown(err)
	switch {
	case errors.Is(err, errTaken):
		return nil
	case errors.Is(err, errPaused):
		return c.decline(ctx, Paused, nil)
	case errors.Is(err, ErrUnderWay):
		return c.decline(ctx, Overlap, err)
	case errors.Is(err, ErrStopping):
		return c.decline(ctx, Shutdown, nil)
	}
	return err
}

// gap returns the slots before this one of which nobody knows, or errTaken if this one is not
// to be had any more. The run at a start is one for the latest scheduled slot, unless that has had
// a run which no shutdown interrupted: so all hosts together make one. The caller holds mu.
func (c *slotClaim) gap() (missed gap, err error) {
	j := c.state
	taken := !c.slot.After(j.story.Slot)
	if c.trigger == AtStart {
		taken = !Latest(j.job.Schedule, c.slot).After(j.story.Slot) && !j.story.Last.isUnfinished()
	}
	if taken {
		return gap{}, errTaken
	}
	if h := j.hosts; h != nil && !h.clock.IsZero() {
		off := c.slot.Sub(h.clock)
		if off > claimMargin || -off > spanOf(j.job, c.slot) {
			return gap{}, fmt.Errorf("slot %v of job %q is %v away by the clock of the hosts' log: is the clock of this host right?", c.slot, j.name, off.Abs().Round(time.Second))
		}
	}
	return gapBetween(j.job.Schedule, j.slot(), c.slot), nil
}

// decline records why the slot does not become a run, unless another host has claimed
// it. Why may be nil where the reason says it all.
func (c *slotClaim) decline(ctx context.Context, reason Reason, why error) error {
	j := c.state
	err := c.skip(context.WithoutCancel(ctx), j, func() ([]gap, error) {
		missed, err := c.gap()
		if err != nil {
			return nil, err
		}
		if reason == Overlap && j.paused(c.now()) { // meanwhile
			reason, why = Paused, nil
		}
		return []gap{missed.because(Missed), c.as(reason, why)}, nil
	})
	if errors.Is(err, errTaken) {
		return nil
	}
	return err
}

// as is the slot as one that does not become a run; why may be nil where the reason says it all.
func (c *slotClaim) as(reason Reason, why error) gap {
	g := gap{n: 1, first: c.slot, last: c.slot, reason: reason}
	if why != nil {
		g.detail = why.Error()
	}
	return g
}

// skipUndecided records that what becomes of the slot is unknown.
func (c *slotClaim) skipUndecided(why error) {
	var run *Run
	c.trouble(c.state.name, c.state.update(true, false, func() []record {
		run = c.state.skipped(c.now(), c.as(LedgerUnavailable, why))
		return []record{{Run: run}}
	}))
	c.reportSkipped(c.state, run)
}

// skip records slots that do not become a run, if which decides so.
func (r *Runner) skip(ctx context.Context, j *jobControl, which func() ([]gap, error)) error {
	var skipped []*Run
	kept, err := j.decide(ctx, func() ([]record, error) {
		gaps, err := which()
		skipped = nil
		var list []record
		for _, g := range gaps {
			if g.n > 0 {
				skipped = append(skipped, j.skipped(r.now(), g, skipped...))
				list = append(list, record{Run: skipped[len(skipped)-1]})
			}
		}
		return list, err
	}, nil)
	r.trouble(j.name, kept)
	if err == nil {
		r.reportSkipped(j, skipped...)
	}
	return err
}

func (r *Runner) reportSkipped(j *jobControl, list ...*Run) {
	for _, run := range list {
		r.config.OnEvent(RunChanged{*run.copy(), j.current().Schedule.Next(r.now())})
	}
}

// skipped returns the record of slots that do not become a run, behind others that are about to
// be told. Those that follow one another for the same reason share one. The caller holds mu.
func (j *jobControl) skipped(now time.Time, slots gap, before ...*Run) *Run {
	known := j.story.Skips
	if len(before) > 0 {
		known = before[len(before)-1]
	}
	run := &Run{ID: NewRunID(now), Job: j.name, Trigger: Scheduled, Slot: slots.first, StartedAt: now, State: RunSkipped, Reason: slots.reason}
	if known != nil && known.Reason == slots.reason {
		run = known.copy()
	}
	run.EndedAt, run.LastSlot, run.Detail = now, slots.last, slots.detail
	run.Ticks += slots.n
	return run
}

// noteMissed notes the slots up to now that nobody claimed. If nobody can tell,
// whoever claims the next slot notes them.
func (r *Runner) recordMissed(ctx context.Context, j *jobControl, missed func() gap) {
	_ = r.skip(ctx, j, func() ([]gap, error) {
		return []gap{missed().because(Missed)}, nil
	})
}

// spanOf is for how long after a slot somebody may want to claim it: to make up
// for it, or at least until the next one.
func spanOf(j *Job, slot time.Time) time.Duration {
	span := j.MissedWithin
	if next := j.Schedule.Next(slot); !next.IsZero() {
		span = max(span, next.Sub(slot))
	}
	return span + claimMargin
}

// A runRequest asks for one run of a job.
type runRequest struct {
	id      string
	trigger Trigger
	by      string
	slot    time.Time
	claim   *slotClaim       // by which the run takes the slot; nil: it takes none
	regions []regions.Region // empty: the ring's turn, beginning at the cursor
	set     []Variable
}

// begin begins a run, which goes on after begin has returned its record. Another one of the
// job that is under way is in its way, unless its host is gone. A run of a slot waits for the end
// of one on another host for as long as it takes to find that out.
func (r *Runner) begin(ctx context.Context, j *jobControl, request runRequest) (Run, error) {
	for w := (waiting{job: j, patient: request.claim != nil}); ; {
		var b beginning
		kept, err := j.decide(ctx, func() (list []record, err error) {
			b, list, err = r.plan(j, request)
			return list, err
		}, func() {
			j.story.Last, j.own, j.executor = b.run, b.run, b.executor
			b.begun = *b.run.copy()
			if r.isStopping() { // by now
				b.executor.halt(ErrShutdown)
			}
		})
		if err == nil {
			r.trouble(j.name, kept)
			r.reportSkipped(j, b.missed...)
			b.executor.start(b.begun)
			return b.begun, nil
		}
		if held := asHeld(err); held != nil && w.goOn(ctx, held) {
			continue
		}
		switch {
		case ctx.Err() != nil:
			err = ErrStopping
		case isUnknown(err) && request.claim == nil:
			r.disown(j, request.id)
		}
		return Run{}, fmt.Errorf("job %q: %w", j.name, err)
	}
}

// A beginning is a run that is about to begin.
type beginning struct {
	executor *executor
	run      *Run
	begun    Run    // as it began
	missed   []*Run // slots before it, of which nobody knew
}

// plan returns a run as it will begin, and what is told with it. The caller holds mu.
func (r *Runner) plan(j *jobControl, request runRequest) (b beginning, list []record, err error) {
	unsure := j.executor == nil && j.story.Last != nil && j.story.Last.ID == request.id
	var missed gap
	if request.claim != nil {
		if missed, err = request.claim.gap(); err != nil && !unsure {
			return b, nil, err
		}
	}
	switch held, gone := j.held(); {
	case r.isStopping():
		return b, nil, ErrStopping
	case request.trigger != Manual && j.paused(r.now()):
		return b, nil, errPaused
	case held != nil && !unsure:
		return b, nil, held
	case !unsure:
		list = gone
	}
	if missed.n > 0 {
		b.missed = []*Run{j.skipped(r.now(), missed.because(Missed))}
		list = append(list, record{Run: b.missed[0]})
	}
	b.executor, b.run = r.newRun(j, request)
	return b, append(list, begunRecord(b.run, b.executor.terms)), nil
}

// disown has a run be over that may have begun in the log, of which this host did not hear, and
// which it does not go on with.
func (r *Runner) disown(j *jobControl, id string) {
	over := &Run{ID: id, State: RunInterrupted, Reason: LedgerUnavailable, EndedAt: r.now()}
	r.trouble(j.name, j.share(false, endedRecord(over)))
}

// isUnknown tells whether an error leaves open what became of a decision.
func isUnknown(err error) bool { return errors.Is(err, quota.ErrOutcomeUnknown) }

// newRun returns the executor of a run, and the run as it will begin. The caller holds mu.
func (r *Runner) newRun(j *jobControl, request runRequest) (*executor, *Run) {
	e := &executor{
		runner: r, state: j, job: j.job, id: request.id, slot: request.slot, set: request.set,
		live: map[passName]*livePass{}, pacing: pacing{times: map[regions.Region]int{}},
		news: make(chan struct{}), over: make(chan struct{}), published: make(chan struct{}), done: make(chan struct{}),
	}
	e.ask, e.end = context.WithCancelCause(context.Background())
	e.force, e.kill = context.WithCancelCause(context.Background())
	e.launching, e.halt = context.WithCancelCause(e.ask)
	e.budget.most = e.job.UnitsPerRun
	e.places = make(chan struct{}, max(1, e.job.Parallel))
	e.ring = e.job.Regions.From(j.cursor())
	if len(request.regions) > 0 {
		e.ring = slices.Clone(request.regions)
	}
	if request.trigger != Manual { // whoever asks for a run waits for it
		e.stagger = e.job.stagger(request.slot, len(e.ring))
	}
	if j.hosts != nil {
		e.terms = &terms{Lease: leaseTime(e.job.Schedule, r.now()), Credential: e.job.Credential, Expects: e.job.Expects}
	}
	return e, &Run{
		ID: e.id, Job: j.name, Trigger: request.trigger, By: request.by, Host: r.config.Host, Slot: request.slot,
		StartedAt: r.now(), State: RunRunning, Ring: e.ring, Chosen: len(request.regions) > 0,
		UnitsPerRun: e.job.UnitsPerRun, Retry: e.job.Retry, Set: request.set,
	}
}

// start has a run that has begun go on.
func (e *executor) start(begun Run) {
	e.runner.config.OnEvent(RunChanged{Run: begun})
	if e.state.hosts != nil {
		e.runner.background.Go(e.keep)
	} else {
		close(e.published)
	}
	go e.loop()
}
