package jobs

import (
	"context"
	"errors"
	"time"

	"quotad/quota"
)

// Tick has a job's slot run, or records why it is not. It returns at once. A slot
// that was ticked before, a job that is not configured, and ticks after Stop are ignored.
func (r *Runner) Tick(job string, slot time.Time) {
	if j, err := r.state(job); err == nil {
		r.tick(j, Scheduled, slot)
	}
}

// tick runs a job's slot in the background: other hosts may have to be asked. While it is unknown what
// becomes of the slot, it is skipped, and tried again for as long as it may be made up for.
func (r *Runner) tick(j *jobControl, trigger Trigger, slot time.Time) {
	r.goUnlessStopping(func(ctx context.Context) { // else this slot counts as missed at the next start
		if !r.follow(ctx, j, slot) {
			return
		}
		run := Run{ID: newRunID(r.now()), Trigger: trigger, Slot: slot}
		c := j.claimOf(run)
		_, err := r.begin(ctx, j, run, c)
		if isDecided(err) || ctx.Err() != nil {
			return
		}
		r.skipUndecided(j, slot, err)
		const longest = 15 * time.Second
		for pause := time.Second; !isDecided(err) && quota.Sleep(ctx, pause) && j.current().mayMakeUp(slot, r.now()); pause = min(2*pause, longest) {
			if run.Trigger == Scheduled {
				run.Trigger = CatchUp
			}
			_, err = r.begin(ctx, j, run, c)
		}
	})
}

// isDecided returns whether it is known what became of a slot.
func isDecided(err error) bool { return err == nil || errors.Is(err, errClaimed) }

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
	case j.share == nil: // among hosts, the next claim of a slot names those that had no run
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
	skipped := j.skip(r.now(), slots...)
	j.mu.Unlock()
	if len(skipped) > 0 {
		r.trouble(j.name, j.log.flush(true))
		r.reportSkipped(j, skipped)
	}
}

// skipUndecided records that what becomes of a slot is unknown. It is not missed; those before it are, as
// far as this host knows of the others.
func (r *Runner) skipUndecided(j *jobControl, slot time.Time, why error) {
	var missed Run
	if !j.share.clock().IsZero() {
		j.mu.Lock()
		missed = gapBetween(j.job.Schedule, j.slot(r.now()), slot)
		j.mu.Unlock()
	}
	r.skip(j, missed, skippedSlot(slot, LedgerUnavailable, why.Error()))
	// A run of another slot, or an operator's, replaces Skips.
	r.trouble(j.name, j.setHere(func(h *hostFacts) { h.Since = quota.Later(h.Since, slot) }))
}
