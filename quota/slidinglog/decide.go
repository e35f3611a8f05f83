package slidinglog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"quotad/quota"
)

// Acquire implements quota.Ledger.
func (l *Ledger) Acquire(ctx context.Context, c *quota.Credential, asks []quota.Ask) (decisions []quota.Decision, err error) {
	err = l.commit(ctx, c, true, &waiter{entries: len(asks), after: 1, draft: func(d *draft) bool {
		before, used := *d, []quota.Units(nil)
		if len(d.entries) > 0 || d.denies {
			used = d.copy.account.Used()
		}
		decisions = d.decide(asks)
		d.denies = d.denies || slices.ContainsFunc(decisions, quota.Decision.Denied)
		if used != nil && d.denies && len(d.entries) > 0 { // when those leave is known once they are in the log
			*d = before
			d.copy.account.holdAgain(used)
			return false
		}
		return true
	}})
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(decisions, func(d quota.Decision) bool { return d.Err == nil }) {
		return nil, decisions[0].Err
	}
	return decisions, nil
}

// decide decides asks one after the other.
func (d *draft) decide(asks []quota.Ask) []quota.Decision {
	decisions := make([]quota.Decision, len(asks))
	entries := make([]int, len(asks)) // the index of each ask's entry in the draft; -1: none
	for i, ask := range asks {
		decisions[i], entries[i] = d.one(ask)
		decisions[i].Outage = d.down != nil
		d.unsure = d.unsure || entries[i] < 0 || decisions[i].Replayed
	}
	d.done = append(d.done, func(now time.Time, left []quota.Units) {
		for i, n := range entries {
			if e, found := d.same[n]; found {
				decisions[i] = d.again(asks[i], e)
				continue
			}
			if n >= 0 {
				decisions[i].GrantID = quota.GrantID(d.credential.Name, d.entries[n].ID)
			}
			for n, s := range decisions[i].Limits {
				decisions[i].Limits[n].Used -= left[d.credential.Index(s.Name)]
			}
		}
	})
	return decisions
}

// one decides an ask, and drafts its grant. It returns the index of its entry, -1 if there is none.
func (d *draft) one(ask quota.Ask) (quota.Decision, int) {
	if err := d.refuses(ask.Operation); err != nil {
		return quota.Decision{Err: err}, -1
	}
	key := keyDigest(ask.Key())
	if key != "" {
		same := func(e quota.Entry) bool { g, _ := e.Grant(); return g.Key == key }
		if slices.ContainsFunc(d.maybe, func(a *attempt) bool { return slices.ContainsFunc(a.entries, same) }) {
			return quota.Decision{Err: fmt.Errorf("%w: the same request is not answered yet", quota.ErrOutcomeUnknown)}, -1
		}
		if n := slices.IndexFunc(d.entries, same); n >= 0 {
			return d.again(ask, d.entries[n]), n
		}
		if e, found := d.copy.granted(key); found {
			return d.again(ask, e), -1
		}
	}
	decision := d.charge(ask.Charges, ask.UseReserve)
	if !decision.Granted() {
		return decision, -1
	}
	grant := quota.Grant{Operation: ask.Operation, Count: ask.Count, Key: key}
	d.add(quota.Entry{Charges: ask.Charges, Body: grant}, ask.Caller)
	d.copy.account.Hold(d.credential, ask.Charges)
	decision.Limits = d.states(ask.Charges, d.now)
	d.slack = min(d.slack, room(decision.Limits, ask.UseReserve))
	return decision, len(d.entries) - 1
}

// charge decides about charges. Offline, they must also fit the allowance.
func (d *draft) charge(charges []quota.Charge, useReserve bool) quota.Decision {
	decision := d.copy.account.Decide(d.credential, charges, useReserve, d.clock, d.copy)
	switch {
	case d.down == nil || decision.Reason == quota.LimitClosed:
		return decision
	case !decision.Granted():
		return quota.Decision{Err: fmt.Errorf("%w: limit %q had no room for %s when the ledger last answered", quota.ErrUnavailable, decision.Limit, quota.Max(charges).Text())}
	case quota.Max(charges) > d.allowance():
		return quota.Decision{Err: fmt.Errorf("%w: of the %s for an outage of the ledger %s are left, and %s are asked",
			quota.ErrUnavailable, d.policy.Units.Text(), quota.Thousands(d.allowance()), quota.Thousands(quota.Max(charges)))}
	}
	return decision
}

// keyDigest returns the request key of an entry: half of the SHA-256 of a key, "" of none.
func keyDigest(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return string(sum[:16])
}

// again answers a request that was granted before, with its grant.
func (d *draft) again(ask quota.Ask, e quota.Entry) quota.Decision {
	g, _ := e.Grant()
	if g.Operation != ask.Operation || g.Count != ask.Count {
		return quota.Conflict(g.Operation, g.Count)
	}
	return quota.Decision{
		GrantID:  quota.GrantID(d.credential.Name, e.ID),
		Replayed: true,
		Units:    quota.Max(ask.Charges),
		Limits:   d.states(ask.Charges, d.now),
	}
}

// Peek implements quota.Ledger.
func (l *Ledger) Peek(ctx context.Context, c *quota.Credential, operations []string, charges []quota.Charge, useReserve bool) (decision quota.Decision, err error) {
	defer quota.EndOnPanic()
	r, err := l.replica(c.Name)
	if err != nil {
		return decision, err
	}
	r.refresh(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused != nil && !r.outage(r.refused) {
		return decision, r.refused
	}
	_, err = r.draft(c, r.estimated(), r.refused, func(d *draft) {
		if err := d.refuses(operations...); err != nil {
			decision.Err = err
			return
		}
		decision = d.charge(charges, useReserve)
		decision.Outage = d.down != nil
	})
	return decision, cmp.Or(err, decision.Err)
}

// Settle implements quota.Ledger. A settlement whose outcome is unknown is not made again after a later one.
func (l *Ledger) Settle(ctx context.Context, c *quota.Credential, s quota.Settlement) (decision quota.Decision, err error) {
	var newest quota.ID // of the grant's settlements, as it was first
	sent := false
	err = l.commit(ctx, c, true, &waiter{entries: 1, draft: func(d *draft) bool {
		was, found := d.copy.counting(s.Grant)
		if slices.ContainsFunc(d.corrected, func(e quota.Entry) bool { return e.ID == was.ID }) {
			return false
		}
		to, n := s, len(d.entries)
		g, _ := was.Grant()
		if !sent {
			newest = g.SettledBy
		} else if newest.Less(g.SettledBy) {
			to.Units = g.SettledTo
		}
		if decision = d.settle(to, was, found); len(d.entries) > n {
			d.sent = append(d.sent, &sent)
		}
		d.unsure = d.unsure || len(d.entries) == n || decision.Raised || s.Caller.Remote != ""
		return true
	}})
	return decision, err
}

// settle settles a grant as it was.
func (d *draft) settle(s quota.Settlement, was quota.Entry, found bool) quota.Decision {
	grant := quota.GrantID(d.credential.Name, s.Grant)
	g, ok := was.Grant()
	if !found || !ok || g.Void || !d.copy.account.Counted(was.ID) {
		return quota.Gone(grant)
	}
	var charges []quota.Charge // in the limits of today, in their order
	for _, limit := range d.credential.Limits {
		if units, charged := quota.ChargeIn(was.Charges, limit.Name); charged {
			charges = append(charges, quota.Charge{Limit: limit.Name, Units: units})
		}
	}
	settled := quota.Decision{GrantID: grant, Units: s.Units}
	if !g.Settled || g.SettledTo != s.Units {
		is := was
		is.Settle(s.Units, quota.ID{})
		e := quota.Settled{Grant: was.ID, To: s.Units, Before: was.Counts(), After: is.Counts()}
		if err := d.copy.account.Fits(&was, &is); err != nil {
			return quota.Decision{Reason: quota.BadRequest, Detail: err.Error()}
		}
		if why := d.copy.account.forbids(s, &was, &is, d.now); why != "" {
			return quota.Decision{Reason: quota.SettledTooHigh, Detail: why, Hint: "if it was spent all the same, an operator can settle it"}
		}
		settled.Raised = quota.Max(e.After) > quota.Max(e.Before)
		d.add(quota.Entry{Body: e}, s.Caller)
		d.corrected = append(d.corrected, is)
		if g.SettledBy.Ms < d.now.UnixMilli() {
			d.copy.account.HoldChange(&was, &is)
		} else { // one of an outage may have the greater id, and count instead: nothing is decided by this one
			d.full = true
		}
	}
	settled.Limits = d.statesAfter(charges)
	return settled
}

// statesAfter returns the limits that charges count against, as they are once the draft is in the
// log.
func (d *draft) statesAfter(charges []quota.Charge) []quota.LimitState {
	states := d.states(charges, d.now)
	d.done = append(d.done, func(now time.Time, _ []quota.Units) { copy(states, d.states(charges, now)) })
	return states
}

// Adjust implements quota.Ledger. An adjustment that returns units of many entries is written as
// several records.
func (l *Ledger) Adjust(ctx context.Context, c *quota.Credential, a quota.Adjustment) (decision quota.Decision, err error) {
	booked, more := quota.Units(0), true
	for more && err == nil {
		var o operation
		err = l.commit(ctx, c, false, &waiter{entries: 1, draft: func(d *draft) bool {
			if a.Units < 0 && len(d.corrected) > 0 {
				return false
			}
			decision, more = d.adjust(&o, a)
			return true
		}})
		if err = cmp.Or(err, decision.Err); err == nil {
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

// adjust drafts an adjustment, and reports whether another record must follow.
func (d *draft) adjust(o *operation, a quota.Adjustment) (decision quota.Decision, more bool) {
	view, n := d.copy.account.views[d.credential.Index(a.Limit)], len(d.entries)
	_, decision.Err = d.once(o, a.Caller, func() (quota.Entry, bool) {
		e, booked := quota.Adjusted{Asked: a.Units}, quota.Units(a.Units)
		if a.Units > 0 {
			if err := view.room(booked); err != nil {
				decision.Reason, decision.Detail = quota.BadRequest, err.Error()
				return quota.Entry{}, false
			}
		} else {
			e.Gives, booked = view.giveBack(-booked, maxGives, d.copy)
			booked = -booked
		}
		return quota.Entry{Note: a.Note, Charges: []quota.Charge{{Limit: a.Limit, Units: booked}}, Body: e}, true
	})
	if decision.Err != nil || decision.Reason != "" {
		return decision, false
	}
	booked := o.entry.Charges[0].Units
	if len(d.entries) > n {
		view.hold(booked)
	}
	d.unsure, d.full = true, a.Units < 0 // what follows would not know what was returned
	more = len(o.entry.Body.(quota.Adjusted).Gives) == maxGives && int64(booked) > a.Units && view.used > 0
	return quota.Decision{Units: max(booked, -booked), Limits: d.statesAfter([]quota.Charge{{Limit: a.Limit}})}, more
}

// commitAlone commits what decides about all that follows, in a draft of its own.
func (l *Ledger) commitAlone(ctx context.Context, c *quota.Credential, f func(*draft) error) (err error) {
	var refused error
	err = l.commit(ctx, c, false, &waiter{entries: 1, draft: func(d *draft) bool {
		if len(d.done)+len(d.entries) > 0 {
			return false
		}
		refused = f(d)
		d.full = true
		return true
	}})
	return cmp.Or(err, refused)
}

// ChangeLimit implements quota.Ledger.
func (l *Ledger) ChangeLimit(ctx context.Context, c *quota.Credential, k quota.Change) (changed bool, err error) {
	var o operation
	err = l.commitAlone(ctx, c, func(d *draft) (err error) {
		changed, err = d.once(&o, k.Caller, func() (quota.Entry, bool) {
			return k.Entry(d.states([]quota.Charge{{Limit: k.Limit}}, d.now)[0], d.now)
		})
		d.unsure = true
		return err
	})
	return changed && err == nil, err
}

// Reset implements quota.Ledger. It begins another generation. If the log is ahead of the clock, it
// also empties the log, which then continues at the clock. A reset voids all that earlier resets
// void, because a lost log may lack one of them.
func (l *Ledger) Reset(ctx context.Context, c *quota.Credential, by quota.Caller, note string) error {
	var o operation
	return l.commitAlone(ctx, c, func(d *draft) error {
		facts, clock := &d.copy.facts, d.clock.UnixMilli()
		d.gen, d.wipe = facts.Gen+1, facts.Position.ID.Ms > clock
		_, err := d.once(&o, by, func() (quota.Entry, bool) {
			until := max(clock, facts.Position.ID.Ms, facts.voidTo())
			return quota.Entry{Note: note, Body: quota.Reset{Until: time.UnixMilli(until).UTC()}}, true
		})
		if b, ok := o.entry.Body.(quota.Reset); ok && b.Until.Before(facts.Position.ID.Time()) { // it was drafted before the end
			d.wipe = false
		}
		return err
	})
}
