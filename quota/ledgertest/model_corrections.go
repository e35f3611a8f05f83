package ledgertest

import (
	"context"
	"slices"

	"quotad/quota"
)

// Settle implements quota.Ledger.
func (m *Model) Settle(_ context.Context, c *quota.Credential, s quota.Settlement) (quota.Decision, error) {
	q, done := m.about(c)
	defer done()
	i := slices.IndexFunc(q.entries, func(e *quota.Entry) bool { return e.ID == s.Grant && e.Kind() == quota.KindGrant })
	if i < 0 || !q.counted(q.entries[i]) {
		return quota.Decision{Reason: quota.UnknownGrant}, nil
	}
	e := q.entries[i]
	raised := false
	if g, _ := e.Grant(); !g.Settled || g.SettledTo != s.Units {
		if q.forbids(s, e) {
			return quota.Decision{Reason: quota.SettledTooHigh}, nil
		}
		trace := quota.Settled{Grant: s.Grant, To: s.Units, Before: q.counts(e)}
		e.Settle(s.Units, quota.ID{})
		trace.After = q.counts(e)
		raised = quota.Max(trace.After) > quota.Max(trace.Before)
		q.append(quota.Entry{By: s.Caller.By(), Body: trace})
	}
	return quota.Decision{GrantID: quota.GrantID(c.Name, s.Grant), Units: s.Units, Raised: raised, Limits: q.states(q.charged(e))}, nil
}

// forbids reports whether a settlement adds what its caller may not.
func (q question) forbids(s quota.Settlement, e *quota.Entry) bool {
	granted, is := *e, *e
	g, _ := e.Grant()
	granted.Body = quota.Grant{Operation: g.Operation, Count: g.Count}
	is.Settle(s.Units, quota.ID{})
	cost := is
	granted.GivenBack, cost.GivenBack = nil, nil
	for i, limit := range q.c.Limits {
		more := q.units(i, &is) - q.units(i, e)
		refuses := s.Bounded && !limit.DryRun && q.inWindow(i, e, q.now) && more > 0
		tooDear := q.units(i, &cost) > limit.Budget(s.UseReserve) && q.units(i, &cost) > q.units(i, &granted)
		noRoom := s.Caller.Remote != "" && q.used(i, q.now)+more > limit.Budget(false)
		if refuses && (tooDear || noRoom) {
			return true
		}
	}
	return false
}

// counts returns what an entry counts in the limits that it was charged in, whichever
// are configured.
func (q question) counts(e *quota.Entry) []quota.Charge {
	counts := slices.Clone(e.Charges)
	for n, charge := range e.Charges {
		alone := &quota.Credential{Limits: []quota.Limit{{Name: charge.Limit}}}
		counts[n].Units = question{c: alone}.units(0, e)
	}
	return counts
}

// charged returns what an entry was charged in the limits there are.
func (q question) charged(e *quota.Entry) []quota.Charge {
	var charges []quota.Charge
	for _, limit := range q.c.Limits {
		for _, charge := range e.Charges {
			if charge.Limit == limit.Name {
				charges = append(charges, charge)
			}
		}
	}
	return charges
}

// Adjust implements quota.Ledger. What it returns, it takes off the oldest bookings
// of the limit's window, and then off its oldest entries, and that stays with them.
func (m *Model) Adjust(_ context.Context, c *quota.Credential, a quota.Adjustment) (quota.Decision, error) {
	q, done := m.about(c)
	defer done()
	booked, i := a.Units, c.Index(a.Limit)
	if a.Units < 0 {
		left := quota.Units(-a.Units)
		for _, kind := range []quota.Kind{quota.KindAdjustment, ""} { // "": any
			for _, e := range q.entries {
				if units := min(left, q.units(i, e)); units > 0 && q.inWindow(i, e, q.now) && (kind == "" || e.Kind() == kind) {
					e.GiveBack(a.Limit, units)
					left -= units
				}
			}
		}
		booked = a.Units + int64(left)
	}
	q.append(quota.Entry{
		By: a.Caller.By(), Note: a.Note, Body: quota.Adjusted{Asked: a.Units},
		Charges: []quota.Charge{{Limit: a.Limit, Units: quota.Units(booked)}},
	})
	return quota.Decision{Units: quota.Units(max(booked, -booked))}, nil
}

// Reset implements quota.Ledger.
func (m *Model) Reset(_ context.Context, c *quota.Credential, by quota.Caller, note string) error {
	q, done := m.about(c)
	defer done()
	q.entries = nil
	if q.last.Ms > q.clock.UnixMilli() {
		q.last, q.now = quota.ID{}, q.clock
	}
	q.append(quota.Entry{By: by.By(), Note: note, Body: quota.Reset{}})
	return nil
}
