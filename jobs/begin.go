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
			b.begun = b.run.clone()
			if r.isStopping() { // by now
				b.executor.halt(ErrShutdown)
			}
		})
		if err == nil {
			r.trouble(j.name, kept)
			r.tellSkipped(j, b.missed...)
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
	r.trouble(j.name, j.note(false, endedRecord(over)))
}

// isUnknown tells whether an error leaves open what became of a decision.
func isUnknown(err error) bool { return errors.Is(err, quota.ErrOutcomeUnknown) }

// newRun returns the executor of a run, and the run as it will begin. The caller holds mu.
func (r *Runner) newRun(j *jobControl, request runRequest) (*executor, *Run) {
	e := &executor{runner: r, state: j, job: j.job, id: request.id, slot: request.slot, set: request.set, news: make(chan struct{}), done: make(chan struct{}), over: make(chan struct{}), tried: make(chan struct{})}
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
		close(e.tried)
	}
	go e.loop()
}
