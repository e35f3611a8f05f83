package outage

import (
	"context"
	"errors"
	"slices"
	"time"

	"quotad/quota"
)

const (
	// heartbeat is how often a ledger that decides is looked at, so that an idle
	// daemon notices a loss before others are granted what it had spent.
	heartbeat = time.Second
	// retry is how often one that does not is tried.
	retry = 250 * time.Millisecond
	// rest is how long nothing is granted after a loss: several heartbeats, in
	// which every daemon that runs notices it and puts its own records back.
	rest = 3 * time.Second
	// restoreTime bounds one attempt to put records back: some millions of them.
	restoreTime = time.Minute
)

// watch looks at a credential's ledger until Close. Each has a watcher of its own: one
// that has much to put back keeps no other waiting.
func (l *Ledger) watch(s *state) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-s.kick:
		case <-timer.C:
		}
		next := heartbeat
		if !l.look(s) {
			next = retry
		}
		timer.Reset(next)
	}
}

// look finds out how a credential's ledger is, does what can be done about it,
// and returns whether it decides.
func (l *Ledger) look(s *state) bool {
	s.mu.Lock()
	c, down := s.credential, s.down
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), l.deadline)
	defer cancel()
	if down == nil {
		if _, err := l.Restorer.Usage(ctx, c); err != nil {
			l.fail(s, err)
			return false
		}
		return true
	}
	err := l.Restorer.Check(ctx, c)
	switch {
	case err == nil:
		return l.bookBack(s, c)
	case errors.Is(err, quota.ErrLost):
		l.setDown(s, err)
		l.restore(s, c)
	default:
		l.setDown(s, err)
	}
	return false
}

// setDown replaces the reason for which a ledger that is down is so.
func (l *Ledger) setDown(s *state, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		s.down = err
	}
}

// restore puts back what the journal knows.
func (l *Ledger) restore(s *state, c *quota.Credential) {
	s.writing.Lock()
	memory, err := l.journal.recall(c.Name, earlier(l.Now(), time.Now()).Add(-span(c)))
	s.writing.Unlock()
	if err != nil {
		l.setDown(s, err)
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, restoreTime)
	defer cancel()
	if err := l.Restorer.Restore(ctx, c, memory.records, rest); err != nil {
		l.setDown(s, err)
		return
	}
	l.markKnown(c)
	l.observe(Event{Credential: c.Name, Kind: Restored, Records: len(memory.records)})
}

// earlier is the earlier of two times: the ledger's is what its last answer said,
// and that may have been about another credential, whose log is ahead.
func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// markKnown writes down which log the credential has now.
func (l *Ledger) markKnown(c *quota.Credential) {
	m := l.Known(c.Name)
	l.noteJournal(l.journal.append(false, line{Credential: c.Name, Kind: marked, Epoch: m.Epoch, ID: m.Newest.String()}))
}

// span is how far back the longest window of a credential reaches.
func span(c *quota.Credential) time.Duration {
	longest := time.Duration(0)
	for _, limit := range c.Limits {
		longest = max(longest, limit.Window.Span())
	}
	return longest
}

// bookBack books what was granted alone with its original times, before anything
// new is granted; what is granted meanwhile is booked in another round.
func (l *Ledger) bookBack(s *state, c *quota.Credential) bool {
	for {
		s.mu.Lock()
		records := slices.Clone(s.unbooked)
		if len(records) == 0 {
			l.up(s)
			return true
		}
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(l.ctx, restoreTime)
		err := l.Restorer.BookBack(ctx, c, records)
		cancel()
		if err != nil {
			l.setDown(s, err)
			return false
		}
		if !l.settleBooked(s, c, records) {
			return false
		}
	}
}

// settleBooked forgets the records that were booked. What one of them was settled to
// follows: it may have been put back before with less.
func (l *Ledger) settleBooked(s *state, c *quota.Credential, records []quota.Entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range records {
		if now := s.unbooked[i]; now.Settled {
			ctx, cancel := context.WithTimeout(context.Background(), l.deadline)
			_, err := l.Restorer.Settle(ctx, c, quota.Settlement{Grant: r.ID, Units: now.SettledTo, Caller: quota.Caller{UID: -1}})
			cancel()
			if err != nil {
				return false
			}
		}
	}
	if len(s.unbooked) == len(records) {
		if err := l.journal.append(true, line{Credential: c.Name, Kind: booked}); err != nil {
			l.noteJournal(err)
			return false
		}
	}
	s.unbooked = slices.Delete(s.unbooked, 0, len(records))
	return true
}

// up lets the ledger decide again. It is called with the state's lock held, and
// releases it: nothing can be granted alone in between.
func (l *Ledger) up(s *state) {
	e := Event{Credential: s.credential.Name, Kind: Up, Took: time.Since(s.since), Units: s.spent}
	s.down, s.spent = nil, 0
	s.mu.Unlock()
	l.observe(e)
}
