package jobs

import (
	"fmt"
	"time"

	"quotad/quota"
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
		run := Run{Trigger: trigger, Slot: slot}
		if now := r.now(); trigger == Scheduled && now.Sub(slot) >= late {
			if run.Trigger = CatchUp; !j.current().mayMakeUp(slot, now) {
				run.Reason = Missed
			}
		}
		if r.runsHere(j, slot) && (run.Reason == Missed || r.follow(j, &run)) {
			_, _ = r.begin(j, run) // else the slot was taken before
		}
	}()
}

// followOn decides about a slot of a job that runs after another one. It runs once a run of that job is done: that of
// its latest slot, or a later one; good is the slot of its last good run. It is over at the job's next slot. A job
// without slots has to have been run since the slot before.
func followOn(own, other Schedule, slot, good, now time.Time) (runs, over bool) {
	if next := own.Next(slot); !next.IsZero() && !now.Before(next) {
		return false, true
	}
	since := Latest(other, slot)
	if since.IsZero() {
		since = Latest(own, slot.Add(-1))
	}
	return !good.IsZero() && !good.Before(since), false
}

// follow waits until a slot of a job may run, if the job runs after another one. If that never comes, the run gets the
// reason; if it returns false, quotad stops, or the job is gone. A job that is paused, or under way, waits for nothing: it
// is skipped for that.
func (r *Runner) follow(j *jobControl, run *Run) bool {
	const often = time.Second
	defer j.follow(run.Slot, time.Time{})
	for now := r.now(); j.isAfter(now); now = r.now() {
		job, schedule, good := j.current(), Schedule(Unscheduled{}), time.Time{}
		if other, err := r.state(job.After); err == nil {
			schedule, good = other.lastGood(now)
		}
		runs, over := followOn(job.Schedule, schedule, run.Slot, good, now)
		if over {
			run.Stop = Stop{Reason: After, Detail: job.After}
		}
		if runs || over {
			return true
		}
		j.follow(time.Time{}, run.Slot)
		if _, removed := r.state(j.name); removed != nil || !quota.Sleep(r.stopping, often) {
			return false
		}
	}
	return true
}

// isAfter returns whether the job waits for another one.
func (j *jobControl) isAfter(now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.job.After != "" && !j.state.Pause.Active(now) && !j.last.underWay()
}

// follow records the slot that waits: it is another one as long as that was one. Of two, the earlier one waits.
func (j *jobControl) follow(from, to time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.follows.Equal(from) {
		j.follows = to
	}
}

// lastGood returns the job's schedule and the slot of its last good run.
func (j *jobControl) lastGood(now time.Time) (Schedule, time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.job.Schedule, notAhead(j.state.GoodSlot, now)
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
	case slot.After(known) && r.config.Hosts == nil: // else another host may have run it
		_, _ = r.begin(j, Run{Trigger: CatchUp, Slot: slot, Stop: Stop{Reason: Missed}})
	}
}

// mayMakeUp returns whether a slot is the latest one, and recent enough to be made up for.
func (j *Job) mayMakeUp(slot, now time.Time) bool {
	return j.CatchUp && !Latest(j.Schedule, now).After(slot) && now.Sub(slot) <= maxCatchUp
}

// slotOf returns the slot that a run of the schedule takes. One at a start takes the latest one, or none if the run of
// that is to be finished. The caller holds mu.
func (j *jobControl) slotOf(run *Run) time.Time {
	switch {
	case run.Trigger == AtStart && j.state.Unfinished:
		return time.Time{}
	case run.Trigger == AtStart:
		return Latest(j.job.Schedule, run.Slot)
	}
	return run.Slot
}

// claim decides what becomes of a run that is to begin, and of its slot: it begins, or has the reason why it does not.
// Skips are the slots that do not become a run: those before it that had none, and its own. After an error the slot was
// taken before. The caller holds mu.
func (j *jobControl) claim(run *Run, now time.Time) (skips []Run, err error) {
	inTheWay := j.state.Run // of a daemon that was killed: it is being ended
	if j.last.underWay() {
		inTheWay = j.last.run
	}
	if inTheWay != nil {
		err = fmt.Errorf("job %q: %w: %s", j.name, ErrUnderWay, inTheWay.ID)
	}
	if run.Trigger == Manual {
		return nil, err
	}
	if slot := j.slotOf(run); !slot.IsZero() && !slot.After(notAhead(j.state.Slot, now)) {
		return nil, errClaimed // what was claimed under a clock that was ahead takes nothing
	}
	known := j.slot(now)
	if waits := j.follows; waits.After(known) && waits.Before(run.Slot) {
		skips, known = append(skips, skippedSlot(waits, Stop{Reason: After, Detail: j.job.After})), waits
	}
	switch {
	case run.Reason == Missed:
		return append(skips, missedBetween(j.job.Schedule, known, run.Slot.Add(1))...), nil
	case run.Reason != "":
	case j.state.Pause.Active(now):
		run.Reason = Paused
	case err != nil:
		run.Reason, run.Detail = Overlap, err.Error()
	}
	skips = append(skips, missedBetween(j.job.Schedule, known, run.Slot)...)
	if run.Reason != "" {
		skips = append(skips, skippedSlot(run.Slot, run.Stop))
	}
	return skips, nil
}

// begin begins a run of which the trigger, the slot and what an operator chose are given. It returns the run as it
// began, which continues. A run of the job that is under way prevents that: the slot is skipped, as it is for a reason
// that is given.
func (r *Runner) begin(j *jobControl, run Run) (begun Run, err error) {
	now := r.now()
	j.mu.Lock()
	skips, err := j.claim(&run, now)
	if err != nil {
		j.mu.Unlock()
		return Run{}, err
	}
	lines := j.skip(now, skips...)
	var e *executor
	if run.Reason == "" {
		e = r.newExecutor(j, &run)
		j.state.begin(&run)
		j.last = e
	}
	j.mu.Unlock()
	r.trouble(j.name, j.save())
	for _, one := range lines {
		r.changed(j.current(), one.Run)
	}
	if e != nil {
		begun = *run.copy()
		r.changed(e.job, &run)
		r.background.Go(e.loop) // its caller has entered
	}
	return begun, nil
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
	j.endedRuns = append(j.endedRuns, lines...)
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
func skippedSlot(slot time.Time, why Stop) Run {
	return Run{Slot: slot, LastSlot: slot, Ticks: 1, Stop: why}
}
