package slidinglog

import (
	"context"
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
	record  journal.Record
	charges []quota.Charge
	isBack  bool // in the log
}

// readJournal reads which entry is the newest, and what the allowance counts. What is not in the log a start puts back
// anyway.
func (l *log) readJournal() error {
	return l.journal.Read(0, func(r journal.Record) error {
		l.newest(r)
		if e, ok := parse(r.ID, r.At, r.Text); ok && r.Kind == journal.Alone {
			l.offline = append(l.offline, offlineGrant{r, e.Charges, true})
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

// keepUsage keeps what limits hold after a decision, for an outage. One that was asked for later may be answered already.
func (l *log) keepUsage(d quota.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.Now.Before(l.knownAt) {
		return
	}
	l.knownAt = d.Now
	for _, s := range d.Limits {
		l.holds[s.Name] = s
	}
}

// acquireOffline grants an ask by this host alone: not more than the allowance, and than each limit had left when the
// engine answered last, divided by the hosts that lived then. down is why the engine cannot be reached.
func (l *log) acquireOffline(ctx context.Context, c *quota.Credential, ask quota.Ask, down error) (quota.Decision, error) {
	e := entryOf(ask)
	e.ID, e.Outage = ask.ID(), true
	d := quota.Decision{GrantID: quota.GrantID(c.Name, e.ID), Units: quota.Max(ask.Charges), Outage: true}
	if l.journal.Has(string(e.ID), 0) {
		if was, found, err := l.ledger.Entry(ctx, c, e.ID); found || err != nil { // else it is older than what is kept
			return repeated(c, ask, was), err
		}
	}
	l.mu.Lock()
	record := journal.Record{Kind: journal.Alone, ID: string(e.ID), Text: textOf(e), At: l.logTime().UnixMicro()}
	if at := slices.IndexFunc(l.offline, func(g offlineGrant) bool { return g.record.ID == record.ID }); at >= 0 {
		record = l.offline[at].record
		l.mu.Unlock()
		was, _ := parse(record.ID, record.At, record.Text)
		return repeated(c, ask, was), nil
	}
	if err := l.allows(c, ask.Operation, ask.Charges, ask.UseReserve, down); err != nil {
		l.mu.Unlock()
		return quota.Decision{}, err
	}
	l.offline = append(l.offline, offlineGrant{record: record, charges: ask.Charges})
	l.alone += d.Units
	l.mu.Unlock()
	if l.write(record) == nil { // a full disk refuses nothing: Health has it
		l.sync()
	}
	return d, nil
}

// allows returns why charges are not granted while the engine is away. mu is held.
func (l *log) allows(c *quota.Credential, operation string, charges []quota.Charge, useReserve bool, down error) error {
	if !l.policy.Open[operation] {
		return down
	}
	if l.knownAt.IsZero() {
		return fmt.Errorf("%w: this host has had no answer yet", down)
	}
	now := l.logTime()
	oldest, left := now.Add(-l.credential.Longest()).UnixMicro(), l.policy.Units
	l.offline = slices.DeleteFunc(l.offline, func(g offlineGrant) bool { return g.isBack && g.record.At <= oldest })
	for _, g := range l.offline {
		left -= quota.Max(g.charges)
	}
	if asked := quota.Max(charges); asked > left {
		return fmt.Errorf("%w: of the %s for an outage of the ledger %s are left, and %s are asked", quota.ErrUnavailable,
			l.policy.Units.Text(), quota.Thousands(max(0, left)), quota.Thousands(asked))
	}
	for _, charge := range charges {
		limit, _ := c.Limit(charge.Limit)
		s, known := l.holds[charge.Limit]
		room := (limit.Budget(useReserve) - s.Used) / quota.Units(max(1, l.ledger.living()))
		switch {
		case limit.DryRun:
		case !known:
			return fmt.Errorf("%w: limit %q is new", quota.ErrUnavailable, charge.Limit)
		case !s.Closed.At(now).IsZero() || charge.Units > room-l.chargedAlone(charge.Limit):
			return fmt.Errorf("%w: limit %q had no room for %s when the ledger last answered", quota.ErrUnavailable, charge.Limit, charge.Units.Text())
		}
	}
	return nil
}

// chargedAlone returns what grants charge to a limit that the log does not have yet. mu is held.
func (l *log) chargedAlone(limit string) (units quota.Units) {
	for _, g := range l.offline {
		if n, _ := quota.ChargeIn(g.charges, limit); !g.isBack {
			units += n
		}
	}
	return units
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
	if l.knownAt.IsZero() {
		return u, down
	}
	u = quota.Usage{Now: l.logTime(), AsOf: l.knownAt, GrantedSince: l.alone}
	for _, limit := range c.Limits {
		s := l.holds[limit.Name]
		s = quota.LimitState{Limit: limit, Used: s.Used + l.chargedAlone(limit.Name), Closed: s.Closed.At(u.Now)}
		u.Limits = append(u.Limits, s)
	}
	return u, nil
}
