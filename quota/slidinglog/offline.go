package slidinglog

import (
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

// An offlineGrant is one that this host made while the engine could not be reached. The allowance counts it as long as
// any window does.
type offlineGrant struct {
	record journal.Record
	entry  quota.Entry
	isBack bool // in the log
}

// readJournal reads which entry is the newest, and what the allowance counts. What is not in the log a start puts back
// anyway.
func (l *log) readJournal() error {
	return l.journal.Read(0, func(r journal.Record) error {
		l.newest(r)
		if e, ok := parse(r.ID, r.At, r.Text); ok && r.Kind == journal.Alone {
			l.offline = append(l.offline, offlineGrant{record: r, entry: e, isBack: true})
		}
		return nil
	})
}

// notBack returns the grants that are to be put back. mu is held.
func (l *log) notBack() (records []journal.Record) {
	for _, g := range l.offline {
		if !g.isBack {
			records = append(records, g.record)
		}
	}
	return records
}

// areBack notes that grants are in the log. mu is held.
func (l *log) areBack(records []journal.Record) {
	for i := range l.offline {
		g := &l.offline[i]
		g.isBack = g.isBack || slices.ContainsFunc(records, func(r journal.Record) bool { return r.ID == g.record.ID })
	}
}

// allowed returns what is left of the allowance. mu is held.
func (l *log) allowed() quota.Units {
	oldest := l.logTime().Add(-l.credential.Longest()).UnixMicro()
	l.offline = slices.DeleteFunc(l.offline, func(g offlineGrant) bool { return g.isBack && g.record.At <= oldest })
	left := l.policy.Units
	for _, g := range l.offline {
		left -= quota.Max(g.entry.Charges)
	}
	return max(0, left)
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
		was := l.offline[i].entry
		l.mu.Unlock()
		return againOffline(ask, was, d), nil
	}
	if l.journal.Has(string(id)) {
		l.mu.Unlock()
		was, err := l.inJournal(id)
		if err != nil {
			return quota.Decision{}, err
		}
		return againOffline(ask, was, d), nil
	}
	if err := l.allows(c, ask.Operation, ask.Charges, ask.UseReserve, down); err != nil {
		l.mu.Unlock()
		return quota.Decision{}, err
	}
	record.At = l.logTime().UnixMicro()
	l.offline = append(l.offline, offlineGrant{record: record, entry: e})
	l.alone += quota.Max(ask.Charges)
	l.mu.Unlock()
	if l.write(record) == nil {
		l.sync()
	} // a full disk refuses nothing: Health has it
	return d, nil
}

// againOffline answers a request that this host knows, by its entry.
func againOffline(ask quota.Ask, was quota.Entry, d quota.Decision) quota.Decision {
	if g, isGrant := was.Grant(); isGrant && !sameRequest(was, ask) {
		return quota.Conflict(g.Operation, g.Count)
	}
	d.Replayed, d.Outage = true, was.Outage
	return d
}

// inJournal reads an entry from the journal.
func (l *log) inJournal(id quota.ID) (e quota.Entry, err error) {
	err = l.journal.Read(0, func(r journal.Record) error {
		if r.ID == string(id) {
			e, _ = parse(r.ID, r.At, r.Text)
		}
		return nil
	})
	return e, err
}

// allows returns why charges are not granted while the engine is away. mu is held.
func (l *log) allows(c *quota.Credential, operation string, charges []quota.Charge, useReserve bool, down error) error {
	if !l.policy.Open[operation] {
		return down
	}
	if l.heard.Now.IsZero() {
		return fmt.Errorf("%w: this host has had no answer yet", down)
	}
	if left := l.allowed(); quota.Max(charges) > left {
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
		room -= l.chargedAlone(charge.Limit)
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
		s.Used += l.chargedAlone(limit.Name)
		u.Limits = append(u.Limits, s)
	}
	u.GrantedSince = l.alone
	return u, nil
}

// chargedAlone returns what grants charge to a limit that the log does not have yet. mu is held.
func (l *log) chargedAlone(limit string) (units quota.Units) {
	for _, g := range l.offline {
		if n, _ := quota.ChargeIn(g.entry.Charges, limit); !g.isBack {
			units += n
		}
	}
	return units
}
