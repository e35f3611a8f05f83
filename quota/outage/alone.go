package outage

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"quotad/quota"
)

// decideAlone decides by policy. Nothing is granted while the log is known to be
// lost: what could be granted is not known, rather than out of reach.
func (l *Ledger) decideAlone(s *state, c *quota.Credential, asks []quota.Ask, down error) []quota.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == nil { // up again since the caller saw it down: what is granted here must be booked back
		s.down, s.since = down, time.Now()
		defer s.wake()
	}
	decisions := make([]quota.Decision, len(asks))
	var lines []line
	kept, spent := len(s.unbooked), s.spent
	for i, ask := range asks {
		if isLost(down) || !s.policy.opens(ask.Operation) {
			decisions[i] = refuse(down)
			continue
		}
		var r quota.Entry
		if decisions[i], r = l.grantAlone(s, c, ask); decisions[i].GrantID != "" && !decisions[i].Replayed {
			lines = append(lines, lineOf(s.credential.Name, alone, "", r))
		}
	}
	if len(lines) == 0 {
		return decisions
	}
	if err := l.journal.append(true, lines...); err != nil {
		s.unbooked, s.spent = s.unbooked[:kept], spent
		for i := range decisions {
			if decisions[i].GrantID != "" {
				decisions[i] = refuse(err)
			}
		}
	}
	return decisions
}

// isLost tells a ledger that lacks entries from one that cannot be reached.
func isLost(err error) bool {
	return errors.Is(err, quota.ErrLost) || errors.Is(err, quota.ErrRecovering)
}

// peekAlone tells by policy what would be granted.
func (s *state) peekAlone(operations []string, charges []quota.Charge, down error) (quota.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	units := quota.Max(charges)
	if isLost(down) || !s.policy.opens(operations...) || s.spent+units > s.policy.Units {
		return quota.Decision{}, refuse(down).Err
	}
	return quota.Decision{Units: units, Outage: true}, nil
}

// refuse answers that the ledger cannot decide, and why.
func refuse(why error) quota.Decision {
	if !errors.Is(why, quota.ErrOutcomeUnknown) && !errors.Is(why, quota.ErrUnavailable) {
		why = fmt.Errorf("%w: %w", quota.ErrUnavailable, why)
	}
	return quota.Decision{Err: why}
}

// grantAlone grants an open operation while the outage's units last.
func (l *Ledger) grantAlone(s *state, c *quota.Credential, ask quota.Ask) (quota.Decision, quota.Entry) {
	units := quota.Max(ask.Charges)
	d := quota.Decision{Units: units, Outage: true}
	if i := s.granted(ask.Key()); i >= 0 {
		d.GrantID, d.Replayed = quota.GrantID(s.credential.Name, s.unbooked[i].ID), true
		if s.unbooked[i].Operation != ask.Operation || s.unbooked[i].Count != ask.Count {
			d = quota.Conflict(s.unbooked[i].Operation, s.unbooked[i].Count)
		}
		return d, quota.Entry{}
	}
	if s.spent+units > s.policy.Units {
		return refuse(fmt.Errorf("what an outage of the ledger may grant, %s, is spent", s.policy.Units.Text())), quota.Entry{}
	}
	r := quota.NewEntry(ask, l.nextID(s))
	s.unbooked, s.spent = append(s.unbooked, r), s.spent+units
	d.GrantID = quota.GrantID(s.credential.Name, r.ID)
	return d, r
}

// granted finds what was granted alone under a request key.
func (s *state) granted(key string) int {
	if key == "" {
		return -1
	}
	return slices.IndexFunc(s.unbooked, func(r quota.Entry) bool { return r.Key == key })
}

// nextID returns an id at the ledger's presumed time, behind the last one.
func (l *Ledger) nextID(s *state) quota.ID {
	id := quota.ID{Ms: l.Now().UnixMilli(), Seq: l.seq}
	if !s.last.Less(id) {
		id = quota.ID{Ms: s.last.Ms, Seq: s.last.Seq + 1}
	}
	s.last = id
	return id
}

// settleAlone settles what was granted alone and is not booked back yet.
func (l *Ledger) settleAlone(s *state, to quota.Settlement) (quota.Decision, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.unbooked, func(r quota.Entry) bool { return r.ID == to.Grant })
	if i < 0 {
		return quota.Decision{}, false
	}
	r := &s.unbooked[i]
	if err := l.journal.append(true, line{Credential: s.credential.Name, Kind: settled, ID: r.ID.String(), Settled: to.Units}); err != nil {
		return refuse(err), true
	}
	r.Settled, r.SettledTo = true, to.Units
	return quota.Decision{GrantID: quota.GrantID(s.credential.Name, r.ID), Units: to.Units, Outage: true}, true
}
