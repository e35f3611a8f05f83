package slidinglog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"quotad/quota"
)

// recover makes the copy one of the log as it is now, which lacks the record at this host's
// position. Entries that the log lacks are marked, to be put back. The file keeps the old position
// until this host has declared the log incomplete.
func (r *replica) recover(ctx context.Context) error {
	if err := r.checkStore(); err != nil {
		return err
	}
	log, end, clock, err := r.readAll(ctx)
	if err != nil {
		return err
	}
	theirs, has := facts{Hosts: make(map[HostID]hostFacts)}, make(map[quota.ID]bool) // its hosts and resets
	for _, record := range log {
		theirs.record(record)
		for _, e := range record.Entries {
			has[e.ID] = true
			if e.Kind == quota.KindReset {
				theirs.renew(&e)
			}
		}
	}
	var oldest int64
	var lost bool
	var missing []quota.Entry
	err = r.onCopy(func(c *Copy) {
		oldest = max(clock.UnixMilli(), end.ID.Ms) - c.keep().Milliseconds() // what is older may have been dropped
		lost = c.facts.Position.ID.Ms > oldest && theirs.Gen <= c.facts.Gen
		standing := c.standing(clock.UnixMilli())
		for e := range c.all(quota.ID{}, false) {
			stands := e.ID.Ms > oldest || slices.Contains(standing, e.ID) || c.facts.Closed[e.Limit].ID == e.ID
			if stands && !has[e.ID] && !theirs.voids(&e) {
				missing, lost = append(missing, e), true
			}
		}
	})
	if err != nil {
		return err
	}
	if lost {
		r.setDown(errLost)
		s := r.statement(Missing)
		s.Waits = append(s.Waits, theirs.known(oldest)...)
		record := r.newRecord(nil, s)
		record.Gen = max(theirs.Gen, record.Gen)
		call := r.newCall(record)
		call.At = end
		said, err := r.appendCall(ctx, call)
		if err != nil {
			return err
		}
		log = append(log, said)
	}
	if err := r.adopt(log, missing); err != nil {
		return err
	}
	if lost {
		r.ledger.config.OnEvent(Event{Credential: r.name, Kind: Restored, Records: len(missing)})
	}
	return r.ledger.Fold()
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
		"or stop quotad and move ledger.db* away to continue with what Redis has", quota.ErrUnavailable, r.name, ErrForeign, was, is)
}

// readAll reads the log from its beginning.
func (r *replica) readAll(ctx context.Context) (log []*Record, end Position, clock time.Time, err error) {
	for {
		call := r.newCall(nil)
		call.At = end
		out := r.call(ctx, call)
		switch out.Status {
		case End:
			return log, end, time.UnixMilli(out.Clock).UTC(), nil
		case Lost:
			log, end = nil, Position{}
		case Unknown, Failed:
			return nil, end, clock, out.Err
		}
		for _, p := range out.Tail {
			record, err := r.decode(p)
			if err != nil {
				return nil, end, clock, err
			}
			log = append(log, &record)
			end = Position{ID: p.At, Tag: record.Tag}
		}
	}
}

// adopt applies a log that was read from its beginning to the copy, in one step. If that log lacks
// the hello of this host, the host says it again, or it and a clone of it would never notice each other.
func (r *replica) adopt(log []*Record, missing []quota.Entry) error {
	return r.onCopy(func(c *Copy) {
		c.facts.Position, c.facts.Quiet = Position{}, nil
		host := r.ledger.Host()
		if self, known := c.facts.Hosts[host]; known {
			self.Hello = 0
			c.facts.Hosts[host] = self
		}
		c.refresh()
		attempt := r.maybe
		c.account.views, r.maybe = nil, nil
		for i := range missing {
			if e, found := c.entry(missing[i].ID); found {
				c.mark(&e, true)
			}
		}
		for _, record := range log {
			if attempt != nil && attempt.tag == record.Tag {
				r.revoke(record)
			}
			c.apply(record)
		}
	})
}
