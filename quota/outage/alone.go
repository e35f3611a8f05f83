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
	lost := errors.Is(down, quota.ErrLost) || errors.Is(down, quota.ErrResting)
	for i, ask := range asks {
		if lost || !s.policy.opens(ask) {
			decisions[i] = refuse(down.Error())
			continue
		}
		var r quota.Record
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
				decisions[i] = refuse(err.Error())
			}
		}
	}
	return decisions
}

func refuse(detail string) quota.Decision {
	return quota.Decision{Reason: quota.LedgerUnavailable, Detail: detail}
}

// grantAlone grants an open operation while the outage's units last.
func (l *Ledger) grantAlone(s *state, c *quota.Credential, ask quota.Ask) (quota.Decision, quota.Record) {
	units := quota.Greatest(ask.Charges)
	d := quota.Decision{Units: units, Outage: true}
	if i := s.granted(ask.Key()); i >= 0 {
		d.GrantID, d.Replayed = quota.GrantID(s.credential.Name, s.unbooked[i].ID), true
		if s.unbooked[i].Operation != ask.Operation || s.unbooked[i].Count != ask.Count {
			d = quota.Conflict(s.unbooked[i].Operation, s.unbooked[i].Count)
		}
		return d, quota.Record{}
	}
	if s.spent+units > s.policy.Units {
		return refuse(fmt.Sprintf("what an outage of the ledger may grant, %s, is spent", s.policy.Units.Text())), quota.Record{}
	}
	if ask.Peek {
		return d, quota.Record{}
	}
	r := quota.NewRecord(c, ask, l.nextID(s))
	s.unbooked, s.spent = append(s.unbooked, r), s.spent+units
	d.GrantID = quota.GrantID(s.credential.Name, r.ID)
	return d, r
}

// granted finds what was granted alone under a request key.
func (s *state) granted(key string) int {
	if key == "" {
		return -1
	}
	return slices.IndexFunc(s.unbooked, func(r quota.Record) bool { return r.Key == key })
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
	i := slices.IndexFunc(s.unbooked, func(r quota.Record) bool { return r.ID == to.Grant })
	if i < 0 {
		return quota.Decision{}, false
	}
	r := &s.unbooked[i]
	if err := l.journal.append(true, line{Credential: s.credential.Name, Kind: settled, ID: r.ID.String(), Settled: to.Units}); err != nil {
		return refuse(err.Error()), true
	}
	r.Settled, r.SettledTo = true, to.Units
	return quota.Decision{GrantID: quota.GrantID(s.credential.Name, r.ID), Units: to.Units, Outage: true}, true
}
