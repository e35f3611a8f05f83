package jobs

import (
	"context"
	"errors"
	"time"
)

// A slotClaim is this host's attempt to run a slot of a job that other hosts may run
// too. Who has locked the job claims its slot in the moment in which the others hear
// that the run begins: a host that dies before has claimed nothing, and another one,
// which waits for the lock, runs the slot.
type slotClaim struct {
	*Runner
	state   *jobControl
	trigger Trigger
	slot    time.Time
	after   time.Time // up to this slot, this host knows that none was missed
	id      string    // of the claimant, and of the run with which the slot begins
	unsure  bool      // it may have claimed the slot, and not heard so
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
	c := &slotClaim{Runner: r, state: j, trigger: trigger, slot: slot, after: after}
	r.goUnlessStopping(c.decide)
}

// decide runs the slot, or finds out that another host does. While nobody can
// tell, it is skipped, and asked about again for as long as it may be made up for.
func (c *slotClaim) decide(ctx context.Context) {
	err := c.attempt(ctx)
	if err == nil {
		return
	}
	if ctx.Err() != nil {
		_ = c.decline(ctx, Shutdown, nil)
		return
	}
	c.skip(c.state, LedgerUnavailable, c.gap(err))
	const longest = 15 * time.Second
	for pause := time.Second; err != nil && c.mayWait(ctx, pause); pause = min(2*pause, longest) {
		if c.trigger == Scheduled {
			c.trigger = CatchUp
		}
		err = c.attempt(ctx)
	}
}

// mayWait waits, and tells whether the slot is still to be made up for.
func (c *slotClaim) mayWait(ctx context.Context, pause time.Duration) bool {
	if !sleep(ctx, pause) {
		return false
	}
	return c.state.isAt(c.slot) && c.now().Sub(c.slot) <= c.state.current().MissedWithin
}

// attempt returns nil when it is decided what becomes of the slot. The run at a
// daemon's start is its own, and no slot: what was missed before it is noted.
func (c *slotClaim) attempt(ctx context.Context) error {
	if !c.unsure {
		c.id = NewRunID(c.now())
	}
	request := runRequest{id: c.id, trigger: c.trigger, slot: c.slot, claim: c}
	if c.trigger == AtStart {
		if _, err := c.claim(ctx, ""); err != nil {
			return err
		}
		request.claim = nil
	}
	if c.state.isUntold() {
		if err := c.refresh(ctx, c.state); err != nil {
			return err
		}
	}
	_, err := c.beginLocked(ctx, c.state, request, true)
	switch {
	case errors.Is(err, errTaken):
		return nil
	case errors.Is(err, errFaster):
		return c.attempt(ctx)
	case errors.Is(err, errPaused):
		return c.decline(ctx, Paused, nil)
	case errors.Is(err, ErrUnderWay):
		return c.declineOverlap(ctx, err)
	case errors.Is(err, ErrStopping):
		return c.decline(ctx, Shutdown, nil)
	}
	return err
}

// begin claims the slot for a run that is about to begin under the lock.
func (c *slotClaim) begin(ctx context.Context, planned Run) error {
	lines, err := encodeLines([]record{begunRecord(&planned)})
	if err != nil {
		return err
	}
	mine, err := c.claim(ctx, lines[0])
	if err == nil && !mine {
		err = errFaster
	}
	return err
}

// declineOverlap records that the slot came while the job was being run; or paused,
// which a job may be meanwhile.
func (c *slotClaim) declineOverlap(ctx context.Context, why error) error {
	if err := c.refresh(ctx, c.state); err != nil {
		return err
	}
	if c.state.paused(c.now()) {
		return c.decline(ctx, Paused, nil)
	}
	return c.decline(ctx, Overlap, why)
}

// decline records why the slot does not become a run, unless another host has claimed
// it. Why may be nil where the reason says it all.
func (c *slotClaim) decline(ctx context.Context, reason Reason, why error) error {
	mine, err := c.claim(context.WithoutCancel(ctx), "")
	if err == nil && mine {
		c.skip(c.state, reason, c.gap(why))
	}
	return err
}

// claim claims the slot, and notes those that nobody claimed before it. With a line,
// which tells that a run begins, it does so only under the job's lock.
func (c *slotClaim) claim(ctx context.Context, line string) (mine bool, err error) {
	job := c.state.current()
	asking, cancel := context.WithTimeout(ctx, hostsTime)
	defer cancel()
	mine, before, err := c.config.Hosts.Claim(asking, job.Name, c.id, c.slot, job.spanOf(c.slot), line)
	c.unsure = err != nil
	if mine && !c.after.IsZero() {
		c.noteMissed(c.state, gapBetween(job.Schedule, latest(before, c.after), c.slot))
	}
	return mine || c.trigger == AtStart, err
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
	c := &slotClaim{Runner: r, state: j, slot: now, after: after, id: NewRunID(now)}
	if _, err := c.claim(ctx, ""); err == nil {
		j.arrive(now)
	}
}
