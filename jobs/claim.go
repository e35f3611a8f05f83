package jobs

import (
	"fmt"
	"time"
)

// slotOf returns the slot that a run takes: an operator's takes none. One at a start takes the latest one, unless the
// run of that is to be finished.
func (j *jobControl) slotOf(run *Run) time.Time {
	switch {
	case run.Trigger == Manual, run.Trigger == AtStart && j.state.Unfinished && !j.state.Pause.Active(run.Slot):
		return time.Time{}
	case run.Trigger == AtStart:
		return Latest(j.job.Schedule, run.Slot)
	}
	return run.Slot
}

// claim decides what becomes of a run that is to begin, and of its slot: it begins, or skip says why
// not. After an error the slot was taken before. Missed are slots before it that had no run. The caller holds mu.
func (j *jobControl) claim(run *Run, now time.Time, stopping bool) (missed, skip Run, err error) {
	manual := run.Trigger == Manual
	if slot := j.slotOf(run); !slot.IsZero() && !slot.After(notAhead(j.state.Slot, run.Slot)) {
		return missed, skip, errClaimed // what was claimed under a clock that was ahead takes nothing
	}
	if !manual {
		missed = gapBetween(j.job.Schedule, j.slot(now), run.Slot)
	}
	switch {
	case stopping && manual:
		err = ErrStopping
	case stopping:
		skip = skippedSlot(run.Slot, Shutdown, "")
	case !manual && j.state.Pause.Active(now):
		skip = skippedSlot(run.Slot, Paused, "")
	case j.executor != nil && manual:
		err = j.underWayError()
	case j.executor != nil:
		skip = skippedSlot(run.Slot, Overlap, fmt.Sprintf("job %q: %v", j.name, j.underWayError()))
	}
	return missed, skip, err
}

// underWayError says which run is in the way of another one. The caller holds mu.
func (j *jobControl) underWayError() error {
	return fmt.Errorf("%w: %s", ErrUnderWay, j.executor.run.ID)
}

// begin begins a run of which the ID, the trigger, the slot and what an operator chose are given. It
// returns the run as it began, which continues. A run of the job that is under way prevents that: the
// slot is skipped.
func (r *Runner) begin(j *jobControl, run Run) (Run, error) {
	now := r.now()
	j.mu.Lock()
	missed, skip, err := j.claim(&run, now, r.isStopping())
	if err != nil {
		j.mu.Unlock()
		return Run{}, fmt.Errorf("job %q: %w", j.name, err)
	}
	skipped, lines := j.skip(now, missed, skip)
	var e *executor
	if skip.Ticks == 0 {
		e = r.newExecutor(j, &run)
		j.state.begin(&run)
		j.executor, j.run, j.output = e, &run, e.output
	}
	j.mu.Unlock()
	r.trouble(j.name, j.save(false, lines...)) // the first pass syncs it
	r.reportSkipped(j, skipped)
	if e == nil {
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

// skip records slots that do not become a run, of which Slot, LastSlot, Ticks and the reason are given;
// those without ticks are none. Slots that follow one another for the same reason share a record. The caller
// holds mu.
func (j *jobControl) skip(now time.Time, slots ...Run) (skipped []*Run, lines []runsLine) {
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
		j.state.skip(&run)
		skipped, lines = append(skipped, &run), append(lines, runsLine{Run: &run})
	}
	return skipped, lines
}

func (r *Runner) reportSkipped(j *jobControl, list []*Run) {
	for _, run := range list {
		r.config.OnEvent(RunChanged{*run.copy(), j.current().Schedule.Next(r.now())})
	}
}
