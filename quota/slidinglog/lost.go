package slidinglog

import (
	"context"
	"fmt"
	"slices"

	"quotad/quota"
)

// A loss is that of the record which a host read last. The log counts as lacking each entry until the
// host has read it again from its beginning.
type loss struct {
	To    int64 // the place of that record, in ms
	Gen   int64 // the generation that the host knew
	Quiet bool  // the log was in a quiet period: the host may lack what others put back
}

// startOver begins to read a log from its beginning that lacks the record at this host's position.
// clock is the store's.
func (r *replica) startOver(clock int64) error {
	if err := r.checkStore(); err != nil {
		return err
	}
	// First alone: what cannot be read would count as in the log.
	for after, more := (quota.ID{}), true; more; {
		err := r.onCopy(func(c *Copy) {
			after, more = c.markNeeded(after, clock+r.ledger.config.Quiet.Milliseconds(), r.ledger.maxUnfolded)
		})
		if err == nil {
			err = r.foldMany(1)
		}
		if err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.giveUp(func(*attempt) bool { return true })
	r.begins, r.recent = 0, nil
	r.copy.facts.Doubtful = max(clock, r.copy.account.Clock) + r.ledger.config.Quiet.Milliseconds()
	r.copy.startOver(r.ledger.Host())
	return nil
}

// markNeeded marks each entry that a host needs at a time, in ms, of the next n entries after an id. It
// returns the last one, and whether there may be more. The log drops the others while it is read.
func (c *Copy) markNeeded(after quota.ID, ms int64, n int) (last quota.ID, more bool) {
	oldest := max(ms, c.account.Clock) - c.keep().Milliseconds()
	stands := c.standing(ms)
	for _, e := range c.facts.Standing {
		stands = append(stands, e.ID)
	}
	for e := range c.all(after, false) {
		if n--; n < 0 {
			return last, true
		}
		if last = e.ID; e.ID.Ms > oldest || slices.Contains(stands, e.ID) {
			c.mark(&e, true)
		}
	}
	return last, false
}

// startOver goes back to the beginning of the log.
func (c *Copy) startOver(host HostID) {
	f := &c.facts
	f.forgetHello(host)
	if f.Loss == nil {
		f.Loss = &loss{Gen: f.Gen}
	}
	f.Loss.To, f.Loss.Quiet = max(f.Loss.To, f.Position.ID.Ms), f.Loss.Quiet || f.Quiet != nil
	f.Position, f.Quiet, f.Complete, f.Hole = Position{}, nil, false, 0
	c.account.views = nil
	c.change()
	c.refresh()
}

// complete records that the log was read to its end.
func (c *Copy) complete() {
	if !c.facts.Complete {
		c.facts.Complete = true
		c.change()
	}
}

// checkStore returns an error if the copy is one of a log in another store. Its entries must not
// be put back into this one without the operator's decision.
func (r *replica) checkStore() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, is := r.copy.facts.Store, r.ledger.config.Store.Name()
	if was == "" || was == is {
		return nil
	}
	return fmt.Errorf("%w: credential %q: %w: that is in %s, and the configuration names %s: set it back, name another state_dir, "+
		"or stop quotad and move ledger.db* away to continue with what Redis has", quota.ErrUnusable, r.name, ErrForeign, was, is)
}

// declareMissing declares that the log lacks entries, or a record that no reset wiped. An empty log may
// have been flushed before this host read it.
func (r *replica) declareMissing(ctx context.Context) error {
	r.mu.Lock()
	f := &r.copy.facts
	fell, missing := f.Loss, f.Missing
	oldest := r.needed()
	lost := fell != nil && (missing > 0 || fell.To > oldest && f.Gen <= fell.Gen)
	declared := !lost && !f.Position.IsZero() && (missing == 0 || f.Quiet != nil)
	r.mu.Unlock()
	if lost {
		r.setDown(errLost)
	}
	if !declared {
		if err := r.declare(ctx, r.statement(LossFound)); err != nil {
			return err
		}
	}
	if fell == nil {
		return nil
	}
	r.mu.Lock()
	f.Loss = nil
	r.copy.change()
	r.mu.Unlock()
	if lost {
		r.ledger.config.OnEvent(Event{Credential: r.name, Kind: Restored, Records: missing})
	}
	return nil
}

// needed returns the time, in ms, up to which no host needs entries of the log. mu is held.
func (r *replica) needed() int64 {
	return max(r.copy.account.Clock, r.estimated().UnixMilli()) - r.copy.keep().Milliseconds()
}
