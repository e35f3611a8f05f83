package slidinglog

import (
	"context"
	"fmt"
	"time"

	"quotad/quota"
)

// Settle implements quota.Ledger.
func (l *Ledger) Settle(ctx context.Context, c *quota.Credential, s quota.Settlement) (decision quota.Decision, err error) {
	err = l.carry(ctx, c, true, func(d *draft) { decision = d.settle(s) })
	return decision, err
}

func (d *draft) settle(s quota.Settlement) quota.Decision {
	grant := quota.GrantID(d.credential.Name, s.Grant)
	was, found := d.copy.grant(s.Grant)
	if !found || !d.copy.account.Counted(was.ID) {
		return quota.Gone(grant)
	}
	var charges []quota.Charge // in the limits that there are, in their order
	for _, limit := range d.credential.Limits {
		if units, charged := quota.ChargeIn(was.Charges, limit.Name); charged {
			charges = append(charges, quota.Charge{Limit: limit.Name, Units: units})
		}
	}
	if !was.Settled || was.SettledTo != s.Units {
		is := was
		e := quota.Entry{Kind: quota.KindSettlement, Grant: was.ID, SettledTo: s.Units}
		e.Before, e.After = is.Settle(s.Units)
		if err := d.copy.account.Fits(&was, &is); err != nil {
			return quota.Decision{Reason: quota.BadRequest, Detail: err.Error()}
		}
		d.add(e, s.Caller)
	}
	return quota.Decision{GrantID: grant, Units: s.Units, Limits: d.statesAfter(charges)}
}

// statesAfter returns the limits that charges count against, as they stand once the draft is
// in the log.
func (d *draft) statesAfter(charges []quota.Charge) []quota.LimitState {
	states := d.states(charges, d.now)
	d.done = func(now time.Time) { copy(states, d.states(charges, now)) }
	return states
}

// Adjust implements quota.Ledger. One that gives back from more entries than one record
// names is booked in several.
func (l *Ledger) Adjust(ctx context.Context, c *quota.Credential, a quota.Adjustment) (decision quota.Decision, err error) {
	booked, more := quota.Units(0), true
	for more && err == nil {
		err = l.carry(ctx, c, false, func(d *draft) { decision, more = d.adjust(a) })
		if err == nil {
			booked += decision.Units
			a.Units += int64(decision.Units)
		}
	}
	if err != nil && booked > 0 {
		return quota.Decision{}, fmt.Errorf("only %s were returned: %w", booked.Text(), err)
	}
	decision.Units = booked
	return decision, err
}

// adjust drafts an adjustment, and reports whether there is more of it.
func (d *draft) adjust(a quota.Adjustment) (decision quota.Decision, more bool) {
	i := d.credential.Index(a.Limit)
	if i < 0 {
		return quota.Decision{Reason: quota.BadRequest, Detail: fmt.Sprintf("unknown limit %q", a.Limit)}, false
	}
	view := d.copy.account.views[i]
	e := quota.Entry{Kind: quota.KindAdjustment, Note: a.Note, Asked: a.Units}
	booked := quota.Units(a.Units)
	if a.Units > 0 {
		if err := view.room(booked); err != nil {
			return quota.Decision{Reason: quota.BadRequest, Detail: err.Error()}, false
		}
	} else {
		e.Gives, booked = view.giveBack(-booked, maxGives, d.copy)
		more = len(e.Gives) == maxGives && int64(-booked) > a.Units && view.used > booked
		booked = -booked
	}
	e.Charges = []quota.Charge{{Limit: a.Limit, Units: booked}}
	d.add(e, a.Caller)
	return quota.Decision{Units: max(booked, -booked), Limits: d.statesAfter([]quota.Charge{{Limit: a.Limit}})}, more
}

// CloseLimit implements quota.Ledger.
func (l *Ledger) CloseLimit(ctx context.Context, c *quota.Credential, k quota.Closing) (changed bool, err error) {
	err = l.carry(ctx, c, false, func(d *draft) {
		var e quota.Entry
		if e, changed = k.Closes(d.copy.account.Closed[k.Limit].At(d.now), d.now); changed {
			d.add(e, k.Caller)
		}
	})
	return changed && err == nil, err
}

// Lend implements quota.Ledger.
func (l *Ledger) Lend(ctx context.Context, c *quota.Credential, k quota.Loan) (changed bool, err error) {
	err = l.carry(ctx, c, false, func(d *draft) {
		var e quota.Entry
		if e, changed = k.Lends(quota.Lending(d.copy.account.Lent[k.Limit], d.now), d.now); changed {
			d.add(e, k.Caller)
		}
	})
	return changed && err == nil, err
}

// Reset implements quota.Ledger. It begins another generation. Where the log is ahead of the
// clock, the log begins at the clock again. A reset also voids all that the resets before it
// do: of those a lost log may lack one.
func (l *Ledger) Reset(ctx context.Context, c *quota.Credential, by quota.Caller, note string) error {
	return l.carry(ctx, c, false, func(d *draft) {
		facts, clock := &d.copy.facts, d.clock.UnixMilli()
		until := max(clock, facts.Position.ID.Ms, facts.VoidTo)
		d.add(quota.Entry{Kind: quota.KindReset, Note: note, Until: time.UnixMilli(until).UTC()}, by)
		d.sure, d.gen, d.wipe = true, facts.Gen+1, facts.Position.ID.Ms > clock
	})
}
