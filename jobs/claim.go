package jobs

import (
	"context"
	"fmt"
	"time"

	"quotad/quota"
)

// claimOf is how a run is claimed: with its slot. An operator's has none. That at a start has the latest
// one, unless the run of that is to be finished.
func (j *jobControl) claimOf(run Run) *claim {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &claim{Run: run.ID, Slot: run.Slot}
	switch {
	case run.Trigger == Manual, run.Trigger == AtStart && j.state.Last.isUnfinished() && !j.state.Pause.Active(run.Slot):
		c.Slot = time.Time{}
	case run.Trigger == AtStart:
		c.Slot = Latest(j.job.Schedule, run.Slot)
	}
	return c
}

// claim decides what becomes of a run that is to begin, and of its slot: it begins, or skip says why
// not. After an error the slot is not its own. Missed are slots before it, after another one, that had
// no run. Among hosts, got is what they have decided; else nil. The caller holds mu.
func (j *jobControl) claim(run *Run, c *claim, got *claimed, after, now time.Time, stopping bool) (missed, skip Run, err error) {
	manual := run.Trigger == Manual
	if got == nil && !c.Slot.IsZero() && !c.Slot.After(notAhead(j.state.Slot, run.Slot)) {
		return missed, skip, errClaimed // what was claimed under a clock that was ahead takes nothing
	}
	if !manual {
		if got != nil {
			after = quota.Later(after, got.Since)
		}
		missed = gapBetween(j.job.Schedule, after, run.Slot)
	}
	switch {
	case stopping && manual:
		err = ErrStopping
	case stopping:
		skip = skippedSlot(run.Slot, Shutdown, "")
	case got != nil && got.Skipped != "":
		skip = skippedSlot(run.Slot, got.Skipped, got.Detail)
	case got == nil && !manual && j.state.Pause.Active(now):
		skip = skippedSlot(run.Slot, Paused, "")
	case j.executor != nil && manual:
		err = j.underWayError()
	case j.executor != nil:
		skip = skippedSlot(run.Slot, Overlap, fmt.Sprintf("job %q: %v", j.name, j.underWayError()))
	}
	return missed, skip, err
}

// underWayError says which run of this host is in the way of another one. The caller holds mu.
func (j *jobControl) underWayError() error {
	return fmt.Errorf("%w: %s", ErrUnderWay, j.executor.run.ID)
}

// begin begins a run of which the ID, the trigger, the slot and what an operator chose are given. It
// returns the run as it began, which continues. A run of the job that is under way prevents that: the
// slot is skipped. Among hosts, c claims it; after an error it may be tried again.
func (r *Runner) begin(ctx context.Context, j *jobControl, run Run, c *claim) (Run, error) {
	var got *claimed
	j.mu.Lock()
	known := j.slot(r.now())
	j.mu.Unlock()
	if j.share != nil {
		shared, err := j.share.claim(ctx, c)
		r.keepShared(j)
		if err != nil {
			return Run{}, fmt.Errorf("job %q: %w", j.name, err)
		}
		if got = &shared; run.Trigger == Scheduled || run.Trigger == CatchUp {
			run.Slot = got.Slot
		}
	}
	now := r.now()
	j.mu.Lock()
	missed, skip, err := j.claim(&run, c, got, known, now, r.isStopping())
	if err != nil {
		j.mu.Unlock()
		r.giveBack(j, run.ID, got)
		return Run{}, fmt.Errorf("job %q: %w", j.name, err)
	}
	skipped := j.skip(now, missed, skip)
	var e *executor
	if skip.Ticks == 0 {
		e = r.newExecutor(j, &run)
		j.apply(logRecord{Run: &run})
		j.executor, j.output = e, e.output
	}
	j.mu.Unlock()
	r.trouble(j.name, j.log.flush(true))
	r.reportSkipped(j, skipped)
	if e == nil {
		r.giveBack(j, run.ID, got)
		return Run{}, nil
	}
	if r.isStopping() { // by now
		e.halt(ErrShutdown)
	}
	r.config.OnEvent(RunChanged{Run: *run.copy()})
	begun := *run.copy()
	go e.loop()
	return begun, nil
}

// giveBack frees the job among the hosts, if it was claimed for a run that does not begin after all.
func (r *Runner) giveBack(j *jobControl, id string, got *claimed) {
	if got != nil && got.Skipped == "" {
		r.endShared(j, sharedProgress{Turn: got.Turn}, sharedRun{ID: id, State: RunInterrupted, Why: Shutdown}, false)
	}
}

// skip records slots that do not become a run, of which Slot, LastSlot, Ticks and the reason are given;
// those without ticks are none. Slots that follow one another for the same reason share a record. The caller
// holds mu.
func (j *jobControl) skip(now time.Time, slots ...Run) (skipped []*Run) {
	for _, run := range slots {
		if run.Ticks == 0 {
			continue
		}
		if known := j.state.Skips; known != nil && known.Reason == run.Reason {
			ticks, last, detail := run.Ticks, run.LastSlot, run.Detail
			run = *known.copy()
			run.Ticks, run.LastSlot, run.Detail = run.Ticks+ticks, last, detail
		} else {
			run.ID, run.Job, run.Trigger, run.State, run.StartedAt = newRunID(now), j.name, Scheduled, RunSkipped, now
		}
		run.EndedAt = now
		j.apply(logRecord{Run: &run})
		skipped = append(skipped, &run)
	}
	return skipped
}

func (r *Runner) reportSkipped(j *jobControl, list []*Run) {
	for _, run := range list {
		r.config.OnEvent(RunChanged{*run.copy(), j.current().Schedule.Next(r.now())})
	}
}
