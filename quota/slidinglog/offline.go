package slidinglog

import (
	"errors"
	"fmt"
	"slices"

	"quotad/quota"
	"quotad/quota/journal"
)

// A Policy decides about a credential's operations while the engine cannot be reached.
type Policy struct {
	// Open operations are granted by this host alone; all others are refused.
	Open map[string]bool
	// Units is the most that this host grants so in any window.
	Units quota.Units
}

// An offlineGrant is one that this host made while the engine could not be reached, until it is put back.
type offlineGrant struct {
	record  journal.Record
	charges []quota.Charge
	ask     quota.Ask
}

// acquireOffline grants an ask by this host alone: not more than the allowance, and than each limit had left when the
// engine answered last, divided by the hosts that lived then. down is why the engine cannot be reached.
func (l *log) acquireOffline(c *quota.Credential, ask quota.Ask, id quota.ID, down error) (d quota.Decision, err error) {
	e := entryOf(ask)
	e.Outage = true
	record := journal.Record{Kind: journal.Alone, ID: string(id), Text: textOf(e)}
	d = quota.Decision{GrantID: quota.GrantID(c.Name, id), Units: quota.Max(ask.Charges), Outage: true}
	l.mu.Lock()
	if i := slices.IndexFunc(l.offline, func(g offlineGrant) bool { return g.record.ID == string(id) }); i >= 0 {
		was := l.offline[i].ask
		l.mu.Unlock()
		if was.Operation != ask.Operation || was.Count != ask.Count {
			return quota.Conflict(was.Operation, was.Count), nil
		}
		d.Replayed = true
		return d, nil
	}
	if l.journal.Has(string(id)) {
		l.mu.Unlock()
		return l.againOffline(c, ask, id, d)
	}
	if err := l.allows(c, ask.Operation, ask.Charges, ask.UseReserve, down); err != nil {
		l.mu.Unlock()
		return quota.Decision{}, err
	}
	record.At = l.logTime().UnixMicro()
	l.offline = append(l.offline, offlineGrant{record, ask.Charges, ask})
	l.alone += quota.Max(ask.Charges)
	l.mu.Unlock()
	if l.write(record) == nil {
		l.sync()
	} // a full disk refuses nothing: Health has it
	return d, nil
}

// againOffline answers a request that is in the journal.
func (l *log) againOffline(c *quota.Credential, ask quota.Ask, id quota.ID, d quota.Decision) (quota.Decision, error) {
	e, found, err := l.inJournal(id)
	if err != nil {
		return quota.Decision{}, err
	}
	if g, ok := e.Grant(); found && ok && !sameRequest(e, ask) {
		return quota.Conflict(g.Operation, g.Count), nil
	}
	d.Replayed, d.Outage = true, e.Outage
	return d, nil
}

// inJournal reads an entry from the journal.
func (l *log) inJournal(id quota.ID) (e quota.Entry, ok bool, err error) {
	err = l.journal.Read(0, func(r journal.Record) error {
		if r.ID == string(id) {
			e, ok = parse(r.ID, r.At, r.Text)
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return e, ok, err
}

var errFound = errors.New("found")

// allows returns why charges are not granted while the engine is away. mu is held.
func (l *log) allows(c *quota.Credential, operation string, charges []quota.Charge, useReserve bool, down error) error {
	if !l.policy.Open[operation] {
		return down
	}
	if l.heard.Now.IsZero() {
		return fmt.Errorf("%w: this host has had no answer yet", down)
	}
	left := l.policy.Units
	for _, g := range l.offline {
		left -= quota.Max(g.charges)
	}
	if left = max(0, left); quota.Max(charges) > left {
		return fmt.Errorf("%w: of the %s for an outage of the ledger %s are left, and %s are asked", quota.ErrUnavailable,
			l.policy.Units.Text(), quota.Thousands(left), quota.Thousands(quota.Max(charges)))
	}
	for _, charge := range charges {
		limit, _ := c.Limit(charge.Limit)
		i := slices.IndexFunc(l.heard.Limits, func(s quota.LimitState) bool { return s.Name == charge.Limit })
		if limit.DryRun {
			continue
		}
		if i < 0 {
			return fmt.Errorf("%w: limit %q is new", quota.ErrUnavailable, charge.Limit)
		}
		s := l.heard.Limits[i]
		room := limit.Budget(useReserve) - s.Used
		if !s.Closed.At(l.logTime()).IsZero() {
			room = 0
		}
		room /= quota.Units(max(1, l.ledger.living()))
		for _, g := range l.offline {
			units, _ := quota.ChargeIn(g.charges, charge.Limit)
			room -= units
		}
		if charge.Units > room {
			return fmt.Errorf("%w: limit %q had no room for %s when the ledger last answered", quota.ErrUnavailable, charge.Limit, charge.Units.Text())
		}
	}
	return nil
}

// peekOffline decides about charges as acquireOffline would.
func (l *log) peekOffline(c *quota.Credential, operations []string, charges []quota.Charge, useReserve bool, down error) (quota.Decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, operation := range operations {
		if err := l.allows(c, operation, charges, useReserve, down); err != nil {
			return quota.Decision{}, err
		}
	}
	return quota.Decision{Units: quota.Max(charges), Outage: true}, nil
}

// usageOffline returns what was known when the engine answered last.
func (l *log) usageOffline(c *quota.Credential, down error) (u quota.Usage, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heard.Now.IsZero() {
		return u, down
	}
	u = quota.Usage{Now: l.logTime(), AsOf: l.heard.Now}
	for _, limit := range c.Limits {
		s := quota.LimitState{Limit: limit}
		for _, heard := range l.heard.Limits {
			if heard.Name == limit.Name {
				s.Used, s.Closed = heard.Used, heard.Closed.At(u.Now)
			}
		}
		for _, g := range l.offline {
			units, _ := quota.ChargeIn(g.charges, limit.Name)
			s.Used += units
		}
		u.Limits = append(u.Limits, s)
	}
	for _, g := range l.offline {
		u.GrantedSince += quota.Max(g.charges)
	}
	return u, nil
}
