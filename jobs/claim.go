package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// A slotClaim is this host's attempt to run a slot of a job that other hosts may run
// too.
type slotClaim struct {
	*Runner
	state    *jobControl
	trigger  Trigger
	slot     time.Time
	after    time.Time // up to this slot, this host knows that none was missed
	claimant string
	mine     bool // this host has claimed the slot
}

// tick has a job's slot run in the background: there may be a host to wait for.
func (r *Runner) tick(j *jobControl, trigger Trigger, slot time.Time) {
	if r.isStopping() {
		return // at the next start this slot counts as missed
	}
	after, isNew := j.arrive(slot)
	if !isNew && trigger != AtStart {
		return
	}
	c := &slotClaim{Runner: r, state: j, trigger: trigger, slot: slot, after: after, claimant: rand.Text()}
	r.goUnlessStopping(c.decide)
}

// goUnlessStopping runs something in the background, for which Stop waits.
func (r *Runner) goUnlessStopping(do func(context.Context)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.stopping {
		return
	}
	r.background.Go(func() {
		ctx, cancel := r.untilStop()
		defer cancel()
		do(ctx)
	})
}

// decide runs the slot, or finds out that another host does. While nobody can
// tell, it is skipped, and asked about again for as long as it may be made up for.
func (c *slotClaim) decide(ctx context.Context) {
	err := c.attempt(ctx)
	if err != nil && ctx.Err() == nil {
		c.skip(c.state, LedgerUnavailable, c.gap(err))
	}
	const longest = 15 * time.Second
	for pause := time.Second; err != nil && c.mayWait(ctx, pause); pause = min(2*pause, longest) {
		if c.trigger == Scheduled {
			c.trigger = CatchUp
		}
		err = c.attempt(ctx)
	}
	if err != nil && c.mine && ctx.Err() != nil {
		c.skip(c.state, Shutdown, c.gap(nil)) // nobody else can run it
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
	if err := c.claim(ctx); err != nil || !c.mine {
		return err
	}
	if err := c.refresh(ctx, c.state); err != nil {
		return err
	}
	if c.state.paused(c.now()) {
		c.skip(c.state, Paused, c.gap(nil))
		return nil
	}
	_, err := c.beginLocked(ctx, c.state, runRequest{trigger: c.trigger, slot: c.slot}, true)
	switch {
	case errors.Is(err, ErrUnderWay):
		c.skip(c.state, Overlap, c.gap(err))
	case errors.Is(err, ErrStopping):
		c.skip(c.state, Shutdown, c.gap(nil))
	default:
		return err
	}
	return nil
}

// claim claims the slot, and notes those that nobody claimed before it. The run at
// a daemon's start is its own, and no slot: what was missed before it is noted.
func (c *slotClaim) claim(ctx context.Context) error {
	if c.mine {
		return nil
	}
	job := c.state.current()
	asking, cancel := context.WithTimeout(ctx, hostsTime)
	defer cancel()
	mine, before, err := c.config.Hosts.Claim(asking, job.Name, c.claimant, c.slot, job.spanOf(c.slot))
	if err != nil {
		return err
	}
	c.mine = mine || c.trigger == AtStart
	if mine && !c.after.IsZero() {
		c.noteMissed(c.state, gapBetween(job.Schedule, latest(before, c.after), c.slot))
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// gap is the slot that does not become a run; err is nil where the reason says it all.
func (c *slotClaim) gap(err error) gap {
	g := gap{n: 1, first: c.slot, last: c.slot}
	if err != nil {
		g.detail = err.Error()
	}
	return g
}

// noteMissedUntil notes the slots up to now that nobody claimed. If nobody can tell,
// whoever claims the next slot notes them.
func (r *Runner) noteMissedUntil(ctx context.Context, j *jobControl, now time.Time) {
	job, after := j.current(), j.slot()
	if gapBetween(job.Schedule, after, now).n == 0 {
		return
	}
	c := &slotClaim{Runner: r, state: j, slot: now, after: after, claimant: rand.Text()}
	if c.claim(ctx) == nil {
		j.arrive(now)
	}
}

func (r *Runner) noteMissed(j *jobControl, missed gap) {
	if missed.n > 0 {
		r.skip(j, Missed, missed)
	}
}

// skip records slots that do not become a run, and tells of them.
func (r *Runner) skip(j *jobControl, reason Reason, slots gap) {
	run, err := j.skip(r.now(), reason, slots)
	r.trouble(j.name, err)
	r.config.Observe(RunChanged{run})
	if reason != LedgerUnavailable {
		r.tellSkips(j, run)
	}
}

// beginLocked begins a run for which it locks the job, so that no other host runs it
// meanwhile. A tick waits as long as the job may still be locked by a host that has
// died.
func (r *Runner) beginLocked(ctx context.Context, j *jobControl, request runRequest, patient bool) (Run, error) {
	now := r.now()
	request.id, request.lock = NewRunID(now), lockTime(j.current().Schedule, now)
	var patience time.Duration
	if patient {
		patience = request.lock + request.lock/4
	}
	run, err := r.beginUnder(ctx, j, request, patience)
	if err != nil {
		return Run{}, fmt.Errorf("job %q: %w", j.name, err)
	}
	return run, nil
}

func (r *Runner) beginUnder(ctx context.Context, j *jobControl, request runRequest, patience time.Duration) (Run, error) {
	if err := r.lock(ctx, j, request.id, request.lock, patience); err != nil {
		return Run{}, err
	}
	err := r.refresh(ctx, j) // whoever held it before has moved the cursor
	if err == nil {
		var run Run
		if run, err = r.begin(j, request); err == nil {
			return run, nil
		}
	}
	// That the lock cannot be given back is no trouble: it ends by itself.
	_, _ = r.append(context.Background(), j, request.id, 0, nil, nil)
	return Run{}, err
}

// lock locks a job for a holder, and waits with some patience until nobody else has
// it. The errors are ErrUnderWay and ErrStopping, or the hosts'.
func (r *Runner) lock(ctx context.Context, j *jobControl, holder string, length, patience time.Duration) error {
	if e := j.underWay(); e != nil && patience == 0 {
		return fmt.Errorf("%w: %s", ErrUnderWay, e.id)
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	watched := ""
	for pause := length / 128; ; pause = min(2*pause, length/8) {
		left, lapsed, err := r.askForLock(ctx, j, holder, length, watched)
		if err != nil || left == 0 && lapsed == "" {
			return err
		}
		if lapsed != "" {
			if watched = lapsed; !sleep(ctx, watchTime(length)) {
				return ErrStopping
			}
			continue
		}
		if sleep(waiting, min(left, pause)) {
			continue
		}
		if ctx.Err() != nil {
			return ErrStopping
		}
		if e := j.underWay(); e != nil {
			return fmt.Errorf("%w: %s", ErrUnderWay, e.id)
		}
		return fmt.Errorf("%w on another host", ErrUnderWay)
	}
}

func (r *Runner) askForLock(ctx context.Context, j *jobControl, holder string, length time.Duration, watched string) (left time.Duration, lapsed string, err error) {
	ctx, cancel := context.WithTimeout(ctx, hostsTime)
	defer cancel()
	return r.config.Hosts.Lock(ctx, j.name, holder, length, watched)
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
