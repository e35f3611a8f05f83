package jobs

import (
	"fmt"
	"time"
)

const (
	// late is how old a slot is that was missed, though it is ticked: the machine has slept, or stood still.
	late = 30 * time.Second
	// maxCatchUp is how old a missed slot may be at most, to be made up for.
	maxCatchUp = 24 * time.Hour
)

// Tick has a job's slot run, or records why it is not. It returns at once. A slot
// that was ticked before, a job that is not configured, and ticks after Stop are ignored.
func (r *Runner) Tick(job string, slot time.Time) {
	if j, err := r.state(job); err == nil {
		r.tick(j, Scheduled, slot)
	}
}

// tick runs a job's slot in the background, if this host runs the job: the ledger may have to say that. A slot that
// comes late was missed.
func (r *Runner) tick(j *jobControl, trigger Trigger, slot time.Time) {
	done, err := r.enter()
	if err != nil {
		return // this slot counts as missed at the next start
	}
	go func() {
		defer done()
		if now := r.now(); trigger == Scheduled && now.Sub(slot) >= late {
			if trigger = CatchUp; !j.current().mayMakeUp(slot, now) {
				r.miss(j, slot, now)
				return
			}
		}
		if r.runsHere(r.stopping, j, slot) && r.follow(r.stopping, j, slot) {
			_, _ = r.begin(j, Run{ID: newRunID(r.now()), Trigger: trigger, Slot: slot}) // else the slot was taken before
		}
	}()
}

// miss records a slot that is not made up for, unless it was taken before.
func (r *Runner) miss(j *jobControl, slot, now time.Time) {
	j.mu.Lock()
	taken := notAhead(j.state.Slot, now)
	j.mu.Unlock()
	if slot.After(taken) {
		r.skip(j, skippedSlot(slot, Missed, ""))
	}
}

// start makes up for what a job missed while no daemon was running, or begins its run at the start.
func (r *Runner) start(j *jobControl) {
	now := r.now().Truncate(time.Millisecond)
	j.mu.Lock()
	job, known := j.job, j.slot(now)
	j.mu.Unlock()
	switch slot := Latest(job.Schedule, now); {
	case slot.After(known) && job.mayMakeUp(slot, now):
		r.tick(j, CatchUp, slot)
	case job.RunAtStart:
		r.tick(j, AtStart, now)
	case r.config.Hosts == nil: // else another host may have run them
		r.skip(j, missedBetween(job.Schedule, known, now)...)
	}
}

// mayMakeUp returns whether a slot is the latest one, and recent enough to be made up for.
func (j *Job) mayMakeUp(slot, now time.Time) bool {
	return j.CatchUp && !Latest(j.Schedule, now).After(slot) && now.Sub(slot) <= maxCatchUp
}

// slotOf returns the slot that a run takes: an operator's takes none. One at a start takes the latest one, unless the
// run of that is to be finished. The caller holds mu.
func (j *jobControl) slotOf(run *Run) time.Time {
	switch {
	case run.Trigger == Manual, run.Trigger == AtStart && j.state.Unfinished && !j.state.Pause.Active(run.Slot):
		return time.Time{}
	case run.Trigger == AtStart:
		return Latest(j.job.Schedule, run.Slot)
	}
	return run.Slot
}

// claim decides what becomes of a run that is to begin, and of its slot: it begins, or begins is false. Skips are the
// slots that do not become a run: those before it that had none, and its own. After an error the slot was taken
// before. The caller holds mu.
func (j *jobControl) claim(run *Run, now time.Time, stopping bool) (begins bool, skips []Run, err error) {
	inTheWay := j.state.Run // of a daemon that was killed: it is being ended
	if j.executor != nil {
		inTheWay = j.executor.run
	}
	if inTheWay != nil {
		err = fmt.Errorf("job %q: %w: %s", j.name, ErrUnderWay, inTheWay.ID)
	}
	if run.Trigger == Manual {
		if stopping {
			err = ErrStopping
		}
		return err == nil, nil, err
	}
	if slot := j.slotOf(run); !slot.IsZero() && !slot.After(notAhead(j.state.Slot, run.Slot)) {
		return false, nil, errClaimed // what was claimed under a clock that was ahead takes nothing
	}
	skips = missedBetween(j.job.Schedule, j.slot(now), run.Slot)
	switch {
	case stopping:
		return false, append(skips, skippedSlot(run.Slot, Shutdown, "")), nil
	case j.state.Pause.Active(now):
		return false, append(skips, skippedSlot(run.Slot, Paused, "")), nil
	case err != nil:
		return false, append(skips, skippedSlot(run.Slot, Overlap, err.Error())), nil
	}
	return true, skips, nil
}

// begin begins a run of which the ID, the trigger, the slot and what an operator chose are given. It returns the run
// as it began, which continues. A run of the job that is under way prevents that: the slot is skipped.
func (r *Runner) begin(j *jobControl, run Run) (Run, error) {
	now := r.now()
	j.mu.Lock()
	begins, skips, err := j.claim(&run, now, r.isStopping())
	if err != nil {
		j.mu.Unlock()
		return Run{}, err
	}
	lines := j.skip(now, skips...)
	var e *executor
	if begins {
		e = r.newExecutor(j, &run)
		j.state.begin(&run)
		j.executor, j.run, j.output = e, &run, e.output
	}
	j.mu.Unlock()
	r.trouble(j.name, j.save(lines...))
	r.reportSkipped(j, lines)
	if !begins {
		return Run{}, nil
	}
	if r.isStopping() { // by now
		e.halt(ErrShutdown)
	}
	begun := *run.copy()
	r.changed(e.job, &run)
	go e.loop()
	return begun, nil
}

// skip records slots that do not become a run, and reports them.
func (r *Runner) skip(j *jobControl, slots ...Run) {
	j.mu.Lock()
	lines := j.skip(r.now(), slots...)
	j.mu.Unlock()
	if len(lines) > 0 {
		r.trouble(j.name, j.save(lines...))
		r.reportSkipped(j, lines)
	}
}

func (r *Runner) reportSkipped(j *jobControl, lines []runsLine) {
	for _, one := range lines {
		r.changed(j.current(), one.Run)
	}
}

// skip records slots that do not become a run, of which Slot, LastSlot, Ticks and the reason are given. Those that
// follow one another for the same reason share a record. The caller holds mu.
func (j *jobControl) skip(now time.Time, slots ...Run) (lines []runsLine) {
	for _, run := range slots {
		if known := j.state.Skips; known != nil && known.Reason == run.Reason {
			ticks, last, detail := run.Ticks, run.LastSlot, run.Detail
			run = *known.copy()
			run.Ticks, run.LastSlot, run.Detail = run.Ticks+ticks, last, detail
		} else {
			run.ID, run.Job, run.Trigger, run.State, run.StartedAt = newRunID(now), j.name, Scheduled, RunSkipped, now
		}
		run.EndedAt = now
		j.state.skip(&run)
		lines = append(lines, runsLine{Run: &run})
	}
	return lines
}

// missedBetween names the slots between two instants, neither included, by the first and the last one. They are not
// counted.
func missedBetween(s Schedule, after, before time.Time) []Run {
	first := s.Next(after)
	if first.IsZero() || !first.Before(before) {
		return nil
	}
	return []Run{{Slot: first, LastSlot: Latest(s, before.Add(-1)), Stop: Stop{Reason: Missed}}}
}

// skippedSlot is a slot that does not become a run.
func skippedSlot(slot time.Time, reason Reason, detail string) Run {
	run := Run{Slot: slot, LastSlot: slot, Stop: Stop{Reason: reason, Detail: detail}}
	if reason != Missed {
		run.Ticks = 1
	}
	return run
}
