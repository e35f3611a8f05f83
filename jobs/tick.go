package jobs

import (
	"context"
	"time"
)

// late is how old a slot is that was missed, though it is ticked: the machine has slept, or stood still.
const late = 30 * time.Second

// Tick has a job's slot run, or records why it is not. It returns at once. A slot
// that was ticked before, a job that is not configured, and ticks after Stop are ignored.
func (r *Runner) Tick(job string, slot time.Time) {
	j, err := r.state(job)
	if err != nil {
		return
	}
	switch now := r.now(); {
	case now.Sub(slot) < late:
		r.tick(j, Scheduled, slot)
	case j.current().mayMakeUp(slot, now):
		r.tick(j, CatchUp, slot)
	case slot.After(j.taken(now)):
		r.skip(j, skippedSlot(slot, Missed, ""))
	}
}

// tick runs a job's slot in the background, if this host runs the job: the ledger may have to say that.
func (r *Runner) tick(j *jobControl, trigger Trigger, slot time.Time) {
	r.goUnlessStopping(func(ctx context.Context) { // else this slot counts as missed at the next start
		if r.runsHere(ctx, j, slot) && r.follow(ctx, j, slot) {
			_, _ = r.begin(j, Run{ID: newRunID(r.now()), Trigger: trigger, Slot: slot}) // else the slot was taken before
		}
	})
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
		r.skip(j, gapBetween(job.Schedule, known, now))
	}
}

// maxCatchUp is how old a missed slot may be at most, to be made up for.
const maxCatchUp = 24 * time.Hour

// mayMakeUp returns whether a slot is the latest one, and recent enough to be made up for.
func (j *Job) mayMakeUp(slot, now time.Time) bool {
	return j.CatchUp && !Latest(j.Schedule, now).After(slot) && now.Sub(slot) <= maxCatchUp
}

// skip records slots that do not become a run, and reports them.
func (r *Runner) skip(j *jobControl, slots ...Run) {
	j.mu.Lock()
	skipped, lines := j.skip(r.now(), slots...)
	j.mu.Unlock()
	if len(skipped) > 0 {
		r.trouble(j.name, j.save(true, lines...))
		r.reportSkipped(j, skipped)
	}
}
