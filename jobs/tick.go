package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Start ends what a killed daemon left running, which takes the jobs' KillGrace
// at most. Then it makes up for what was missed while no daemon was there, as
// far as the jobs want that, and runs those that are to run at the start. It is
// called once, before the first Tick, which is for a later slot.
func (r *Runner) Start(ctx context.Context) {
	var sweeps sync.WaitGroup
	for _, d := range r.all() {
		r.tellDied(d)
		sweeps.Go(func() { r.trouble(d.name, d.endLeftovers(ctx, r.config.EndLeftover)) })
	}
	sweeps.Wait()
	for _, d := range r.all() {
		r.start(d)
	}
}

// tellDied tells of the run and the passes that were under way when the daemon
// was killed.
func (r *Runner) tellDied(d *desk) {
	d.mu.Lock()
	run := d.died
	d.died = nil
	d.mu.Unlock()
	if run == nil {
		return
	}
	for _, p := range run.Passes {
		if p.Reason == Died {
			r.config.Observer.PassChanged(*run, p)
		}
	}
	r.config.Observer.RunChanged(*run)
}

// endLeftovers ends the processes that a killed daemon left running.
func (d *desk) endLeftovers(ctx context.Context, end func(context.Context, Identity, time.Duration) (bool, error)) error {
	d.mu.Lock()
	left, grace := d.memory.Leftovers, d.job.KillGrace
	d.mu.Unlock()
	if len(left) == 0 {
		return nil
	}
	var trouble []error
	var alive []Identity // for the next start to end
	for _, id := range left {
		if _, err := end(ctx, id, grace); err != nil {
			trouble = append(trouble, fmt.Errorf("a daemon that was killed left a process: %w", err))
			alive = append(alive, id)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory.Leftovers = alive
	return errors.Join(append(trouble, d.keep())...)
}

func (r *Runner) start(d *desk) {
	now := r.now().Truncate(time.Millisecond)
	if slot := d.overdue(now); !slot.IsZero() {
		r.tick(d, CatchUp, slot)
		return
	}
	if d.current().RunAtStart {
		r.tick(d, AtStart, now)
		return
	}
	if r.config.Fleet != nil {
		return // whoever claims the next slot knows what was missed
	}
	missed, _ := d.take(now)
	r.noteMissed(d, missed)
}

// Tick begins the run of a job for a slot, or records why it does not. It
// returns when that is decided, not when the run is over. A slot that was
// ticked before, a job that is not configured, and ticks after Drain or Stop
// are ignored. With a Fleet it returns at once.
func (r *Runner) Tick(job string, slot time.Time) {
	if d, err := r.desk(job); err == nil {
		r.tick(d, Scheduled, slot)
	}
}

func (r *Runner) tick(d *desk, trigger Trigger, slot time.Time) {
	if r.isStopping() {
		return // at the next start this slot counts as missed
	}
	if r.config.Fleet != nil {
		r.contend(d, trigger, slot)
		return
	}
	missed, isNew := d.take(slot)
	if !isNew && trigger != AtStart {
		return
	}
	r.noteMissed(d, missed)
	this := gap{n: 1, first: slot, last: slot}
	if d.paused(r.now()) {
		r.skip(d, Paused, this)
		return
	}
	if _, err := r.begin(d, order{trigger: trigger, slot: slot}); errors.Is(err, ErrUnderWay) {
		r.skip(d, Overlap, this)
	}
}

func (r *Runner) noteMissed(d *desk, missed gap) {
	if missed.n > 0 {
		r.skip(d, Missed, missed)
	}
}

// skip records slots that do not become a run, and tells of them.
func (r *Runner) skip(d *desk, reason Reason, slots gap) {
	d.mu.Lock()
	run, err := d.skip(r.now(), reason, slots)
	d.mu.Unlock()
	r.trouble(d.name, err)
	r.config.Observer.RunChanged(run)
	if r.config.Fleet != nil && reason != LedgerUnavailable {
		r.tellSkips(d, run)
	}
}
