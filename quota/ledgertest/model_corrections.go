package ledgertest

import (
	"context"
	"fmt"
	"time"

	"quotad/quota"
)

// Settle implements quota.Ledger.
func (m *Model) Settle(_ context.Context, c *quota.Credential, s quota.Settlement) (quota.Decision, error) {
	q, done := m.about(c)
	defer done()
	e := q.find(s.Grant)
	_, isGrant := bodyOf(e).(quota.Grant)
	_, isBooking := bodyOf(e).(quota.Booked)
	known := isGrant || isBooking && !s.Bounded
	if !known || !e.At.After(q.now.Add(-c.Keeps())) || !e.At.After(q.reset) {
		return quota.Gone(quota.GrantID(c.Name, s.Grant)), nil
	}
	if s.Bounded && q.forbids(s, e) {
		return quota.Decision{Reason: quota.SettledTooHigh}, nil
	}
	was := e.Charges
	d := quota.Decision{GrantID: quota.GrantID(c.Name, s.Grant), Units: s.Units, Raised: s.Units > quota.Max(was)}
	if to, settled := e.Settled(); !settled || to != s.Units {
		is := settledTo(e, s.Units)
		for _, charge := range is {
			before, _ := quota.ChargeIn(was, charge.Limit)
			if limit, found := c.Limit(charge.Limit); found && q.used(limit, q.now)-before+charge.Units > quota.MaxUnits {
				return quota.Decision{Reason: quota.BadRequest}, nil
			}
		}
		e.Was, e.Charges = e.Asked(), is
		q.append(quota.Entry{By: s.Caller.By(), Region: s.Caller.Region, Body: quota.Settled{Grant: s.Grant, To: s.Units}})
		q.now = q.now.Add(time.Microsecond) // what the answer shows is read after that
	}
	d.Limits = q.states(was)
	return d, nil
}

func bodyOf(e *quota.Entry) quota.Body {
	if e == nil {
		return nil
	}
	return e.Body
}

// settledTo returns what an entry would count: see quota.Settlement.Units.
func settledTo(e *quota.Entry, to quota.Units) (charges []quota.Charge) {
	greatest := quota.Max(e.Asked())
	for _, charge := range e.Asked() {
		if charge.Units == greatest {
			charge.Units = to
		}
		charge.Units = min(charge.Units, to)
		charges = append(charges, charge)
	}
	return charges
}

// forbids reports whether a settlement adds what its caller may not: see quota.Settlement.Bounded.
func (q question) forbids(s quota.Settlement, e *quota.Entry) bool {
	for _, charge := range settledTo(e, s.Units) {
		limit, found := q.c.Limit(charge.Limit)
		now, _ := quota.ChargeIn(e.Charges, charge.Limit)
		asked, _ := quota.ChargeIn(e.Asked(), charge.Limit)
		more := charge.Units - now
		if !found || limit.DryRun || more <= 0 || !q.counts(limit, e, q.now) {
			continue
		}
		tooDear := charge.Units > max(limit.Budget(s.UseReserve), asked)
		if tooDear || s.Caller.Remote != "" && q.used(limit, q.now)+more > limit.Budget(false) {
			return true
		}
	}
	return false
}

// Book implements quota.Ledger.
func (m *Model) Book(_ context.Context, c *quota.Credential, b quota.Booking) (quota.Decision, error) {
	q, done := m.about(c)
	defer done()
	charges := []quota.Charge{{Limit: b.Limit, Units: b.Units}}
	if limit, _ := c.Limit(b.Limit); q.used(limit, q.now)+b.Units > quota.MaxUnits {
		return quota.Decision{Reason: quota.BadRequest, Detail: fmt.Sprintf("limit %q would hold too much", b.Limit)}, nil
	}
	id := q.append(quota.Entry{By: b.Caller.By(), Region: b.Caller.Region, Note: b.Note, Charges: charges,
		Body: quota.Booked{}})
	d := q.granted(quota.Decision{Units: b.Units, Now: q.now}, id, charges)
	d.Limits[0].Closed = quota.Closed{} // which a booking does not ask
	return d, nil
}

// ChangeLimit implements quota.Ledger.
func (m *Model) ChangeLimit(_ context.Context, c *quota.Credential, k quota.Change) (bool, error) {
	q, done := m.about(c)
	defer done()
	if !k.Changes(quota.LimitState{Closed: q.closed(k.Limit)}, q.now) {
		return false, nil
	}
	q.append(quota.Entry{By: k.Caller.By(), Region: k.Caller.Region, Note: k.Note,
		Body: quota.Changed{Limit: k.Limit, Until: k.Until}})
	return true, nil
}

// Reset implements quota.Ledger.
func (m *Model) Reset(_ context.Context, c *quota.Credential, by quota.Caller, note string) error {
	q, done := m.about(c)
	defer done()
	if q.now.Sub(q.clock) > time.Minute+time.Microsecond { // a wrong clock dated entries: another log begins
		q.entries, q.now = nil, q.clock
	}
	q.append(quota.Entry{By: by.By(), Region: by.Region, Note: note, Body: quota.Reset{}})
	return nil
}
