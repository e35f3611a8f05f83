package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// A contest is this host's attempt to run a slot of a job that other hosts run
// too.
type contest struct {
	*Runner
	desk     *desk
	trigger  Trigger
	slot     time.Time
	after    time.Time // up to this slot, this host knows that none was missed
	claimant string
	mine     bool // this host has claimed the slot
}

// contend ticks a job that other hosts run too, in the background: there may be
// a host to wait for.
func (r *Runner) contend(d *desk, trigger Trigger, slot time.Time) {
	after, isNew := d.arrive(slot)
	if !isNew && trigger != AtStart {
		return
	}
	c := &contest{Runner: r, desk: d, trigger: trigger, slot: slot, after: after, claimant: rand.Text()}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.stopping {
		r.contests.Go(c.decide)
	}
}

// decide runs the slot, or finds out that another host does. While nobody can
// tell, it is skipped, and asked about again for as long as it may be made up for.
func (c *contest) decide() {
	ctx, cancel := c.untilStop()
	defer cancel()
	err := c.attempt(ctx)
	if err != nil && ctx.Err() == nil {
		c.skip(c.desk, LedgerUnavailable, c.gap(err))
	}
	const longest = 15 * time.Second
	for pause := time.Second; err != nil && c.mayWait(ctx, pause); pause = min(2*pause, longest) {
		if c.trigger == Scheduled {
			c.trigger = CatchUp
		}
		err = c.attempt(ctx)
	}
	if err != nil && c.mine && ctx.Err() != nil {
		c.skip(c.desk, Shutdown, c.gap(nil)) // nobody else can run it
	}
}

// mayWait waits, and tells whether the slot is still to be made up for.
func (c *contest) mayWait(ctx context.Context, pause time.Duration) bool {
	if !sleep(ctx, pause) {
		return false
	}
	return c.desk.isAt(c.slot) && c.now().Sub(c.slot) <= c.desk.current().MissedWithin
}

// attempt returns nil when it is decided what becomes of the slot.
func (c *contest) attempt(ctx context.Context) error {
	if err := c.claim(ctx); err != nil || !c.mine {
		return err
	}
	if err := c.refresh(ctx, c.desk); err != nil {
		return err
	}
	if c.desk.paused(c.now()) {
		c.skip(c.desk, Paused, c.gap(nil))
		return nil
	}
	_, err := c.beginAlone(ctx, c.desk, order{trigger: c.trigger, slot: c.slot}, true)
	switch {
	case errors.Is(err, ErrUnderWay):
		c.skip(c.desk, Overlap, c.gap(err))
	case errors.Is(err, ErrStopping):
		c.skip(c.desk, Shutdown, c.gap(nil))
	default:
		return err
	}
	return nil
}

// claim claims the slot, and notes those that nobody claimed before it. The run at
// a daemon's start is its own, and no slot.
func (c *contest) claim(ctx context.Context) error {
	if c.mine = c.mine || c.trigger == AtStart; c.mine {
		return nil
	}
	job := c.desk.current()
	asking, cancel := context.WithTimeout(ctx, fleetTime)
	defer cancel()
	mine, before, err := c.config.Fleet.Claim(asking, job.Name, c.claimant, c.slot, job.spanOf(c.slot))
	c.mine = mine && err == nil
	if !c.mine || c.after.IsZero() {
		return err
	}
	if before.Before(c.after) {
		before = c.after
	}
	c.noteMissed(c.desk, gapBetween(job.Schedule, before, c.slot))
	return nil
}

func (c *contest) gap(err error) gap {
	g := gap{n: 1, first: c.slot, last: c.slot}
	if err != nil {
		g.detail = err.Error()
	}
	return g
}

// beginAlone is begin for a job that no other host may run meanwhile. A tick waits
// as long as the job may still be held by a host that has died.
func (r *Runner) beginAlone(ctx context.Context, d *desk, o order, patient bool) (Run, error) {
	now := r.now()
	o.id, o.lease = NewRunID(now), leaseOf(d.current().Schedule, now)
	var patience time.Duration
	if patient {
		patience = o.lease + o.lease/4
	}
	if err := r.hold(ctx, d, o.id, o.lease, patience); err != nil {
		return Run{}, fmt.Errorf("job %q: %w", d.name, err)
	}
	err := r.refresh(ctx, d) // whoever held it before has moved the cursor
	if err == nil {
		var run Run
		if run, err = r.begin(d, o); err == nil {
			return run, nil
		}
	}
	r.letGo(d, o.id)
	return Run{}, err
}

// untilStop returns a context that ends when the runner stops.
func (r *Runner) untilStop() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		select {
		case <-r.stopped:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
