package slidinglog

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"quotad/quota"
)

// acquire decides asks, and has the policy decide them while the store cannot be reached.
func (r *replica) acquire(ctx context.Context, c *quota.Credential, asks []quota.Ask) (decisions []quota.Decision, err error) {
	err = r.carry(ctx, c, func(d *draft) error {
		decisions = d.decide(asks)
		return nil
	})
	switch {
	case err == nil:
		return decisions, nil
	case r.ledger.store != nil && away(err):
		return r.acquireAway(c, asks, err)
	}
	return nil, err
}

// decide decides asks one after the other.
func (d *draft) decide(asks []quota.Ask) []quota.Decision {
	decisions := make([]quota.Decision, len(asks))
	grants := make([]int, 0, len(asks)) // the index of each entry's ask
	d.sure = true
	for i, ask := range asks {
		var granted bool
		if n, ok := d.keys[keyDigest(ask.Key())]; ok {
			d.replays[i] = n
		}
		decisions[i], granted = d.one(ask)
		if granted {
			grants = append(grants, i)
		}
		d.sure = d.sure && granted && (!ask.AtMost || decisions[i].Count == ask.Count)
	}
	used := d.used()
	d.done = func(now time.Time) {
		returned := d.used()
		for i := range used {
			returned[i] = used[i] - returned[i] // has left the windows since
		}
		for n, i := range grants {
			decisions[i].GrantID = quota.GrantID(d.credential.Name, d.entries[n].ID)
		}
		for i := range decisions {
			if n, replayed := d.replays[i]; replayed {
				decisions[i].GrantID = quota.GrantID(d.credential.Name, d.entries[n].ID)
			}
			for n, s := range decisions[i].Limits {
				decisions[i].Limits[n].Used -= returned[d.credential.Index(s.Name)]
			}
		}
	}
	return decisions
}

// used returns what each limit holds.
func (d *draft) used() []quota.Units {
	used := make([]quota.Units, len(d.credential.Limits))
	for i := range used {
		used[i] = d.account().Used(i)
	}
	return used
}

// one decides an ask, and drafts its grant.
func (d *draft) one(ask quota.Ask) (decision quota.Decision, granted bool) {
	key := keyDigest(ask.Key())
	if key != "" {
		if d.maybe != nil && d.maybe.keys[key] {
			return quota.Decision{Err: fmt.Errorf("%w: the same request is not answered yet", quota.ErrOutcomeUnknown)}, false
		}
		if e, found := d.grantedBefore(key); found {
			return d.again(ask, e), false
		}
	}
	if ask.AtMost {
		ask = ask.Fewer(d.takes(ask))
	}
	decision = d.account().Decide(d.credential, ask.Charges, ask.UseReserve, d.clock, d.copy)
	if !decision.Granted() {
		return decision, false
	}
	e := quota.NewEntry(ask, quota.ID{})
	e.Key, e.Gen = key, quota.Unplaced
	if key != "" {
		d.keys[key] = len(d.entries)
	}
	d.entries = append(d.entries, e)
	d.account().Hold(d.credential, ask.Charges)
	decision.Limits = d.states(ask.Charges, d.now)
	decision.Count = ask.Granted()
	return decision, true
}

// keyDigest is what stands in an entry for a request key: half of its SHA-256.
func keyDigest(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return string(sum[:16])
}

// grantedBefore finds the grant of a request key, in the draft or in the log.
func (d *draft) grantedBefore(key string) (quota.Entry, bool) {
	if n, ok := d.keys[key]; ok {
		return d.entries[n], true
	}
	return d.copy.granted(key)
}

// again answers a request that was granted before.
func (d *draft) again(ask quota.Ask, e quota.Entry) quota.Decision {
	if !ask.Repeats(e.Operation, e.Count) {
		return quota.Conflict(e.Operation, e.Count)
	}
	ask = ask.Fewer(e.Count)
	return quota.Decision{
		Count:    ask.Granted(),
		GrantID:  quota.GrantID(d.credential.Name, e.ID),
		Replayed: true,
		Units:    quota.Max(ask.Charges),
		Limits:   d.states(ask.Charges, d.now),
	}
}

// takes returns how many of its calls an ask is decided for: those that fit, or one.
func (d *draft) takes(ask quota.Ask) quota.Units {
	most := max(1, d.account().Most(d.credential, ask, d.now))
	if most > 1 && !d.account().Decide(d.credential, ask.Fewer(most).Charges, ask.UseReserve, d.clock, d.copy).Granted() {
		return 1 // a limit is closed
	}
	return most
}

// peek decides about charges, and writes nothing.
func (r *replica) peek(ctx context.Context, c *quota.Credential, operations []string, charges []quota.Charge, useReserve bool) (d quota.Decision, err error) {
	r.glance(ctx)
	if err := r.serving(); err != nil {
		return r.peekAway(c, operations, charges, useReserve, err)
	}
	clock := r.estimate()
	_, err = r.drafted(c, clock, func(draft *draft) error {
		d = draft.account().Decide(c, charges, useReserve, clock, draft.copy)
		return nil
	})
	return d, err
}

// settle sets a grant to what was spent.
func (r *replica) settle(ctx context.Context, c *quota.Credential, s quota.Settlement) (decision quota.Decision, err error) {
	draft := func(d *draft) error {
		decision = d.settle(s)
		return nil
	}
	err = r.carry(ctx, c, draft)
	if err != nil && r.ledger.store != nil && away(err) {
		return decision, r.writeAway(c, err, draft)
	}
	return decision, err
}

func (d *draft) settle(s quota.Settlement) quota.Decision {
	was, found := d.copy.grant(s.Grant)
	if !found || !d.account().Counted(was.ID) {
		return quota.Gone(quota.GrantID(d.credential.Name, s.Grant))
	}
	decision := quota.Decision{GrantID: quota.GrantID(d.credential.Name, s.Grant), Units: s.Units}
	if was.Settled && was.SettledTo == s.Units {
		decision.Limits = d.states(d.charged(was), d.now)
		return decision
	}
	is := was
	trace := quota.Entry{Kind: quota.KindSettlement, Grant: was.ID, SettledTo: s.Units}
	trace.Before, trace.After = is.Settle(s.Units)
	if err := d.account().Fits(&was, &is); err != nil {
		return quota.Decision{Reason: quota.BadRequest, Detail: err.Error()}
	}
	d.add(trace, s.Caller)
	decision.Limits = d.states(d.charged(was), d.now)
	limits := decision.Limits
	d.done = func(now time.Time) { copy(limits, d.states(d.charged(was), now)) }
	return decision
}

// charged returns what an entry was charged in the limits that there are, in their order.
func (d *draft) charged(e quota.Entry) (charges []quota.Charge) {
	for _, limit := range d.credential.Limits {
		if units, charged := quota.ChargeIn(e.Charges, limit.Name); charged {
			charges = append(charges, quota.Charge{Limit: limit.Name, Units: units})
		}
	}
	return charges
}

// adjust books units outside any operation, in as many records as it takes.
func (r *replica) adjust(ctx context.Context, c *quota.Credential, a quota.Adjustment) (decision quota.Decision, err error) {
	booked, more := quota.Units(0), true
	for more && err == nil {
		err = r.carry(ctx, c, func(d *draft) error {
			decision, more = d.adjust(a)
			return nil
		})
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
	e := quota.Entry{Kind: quota.KindAdjustment, Note: a.Note, Asked: a.Units}
	booked := quota.Units(a.Units)
	if a.Units > 0 {
		if err := d.account().Room(i, booked); err != nil {
			return quota.Decision{Reason: quota.BadRequest, Detail: err.Error()}, false
		}
	} else {
		e.Gives, booked = d.account().GiveBack(i, -booked, mostGives, d.copy)
		more = len(e.Gives) == mostGives && int64(-booked) > a.Units && d.account().Used(i) > booked
		booked = -booked
	}
	e.Charges = []quota.Charge{{Limit: a.Limit, Units: booked}}
	d.add(e, a.Caller)
	decision = quota.Decision{Units: max(booked, -booked), Limits: d.states([]quota.Charge{{Limit: a.Limit}}, d.now)}
	limits := decision.Limits
	d.done = func(now time.Time) { copy(limits, d.states([]quota.Charge{{Limit: a.Limit}}, now)) }
	return decision, more
}

// closeLimit closes or opens a limit, and reports whether that changes anything.
func (r *replica) closeLimit(ctx context.Context, c *quota.Credential, k quota.Closing) (changes bool, err error) {
	err = r.carry(ctx, c, func(d *draft) error {
		var e quota.Entry
		if e, changes = k.Closes(d.account().Closed[k.Limit].At(d.now), d.now); changes {
			d.add(e, k.Caller)
		}
		return nil
	})
	return changes && err == nil, err
}

// lend makes a limit higher until a time, or ends its loans, and reports whether that changes
// anything.
func (r *replica) lend(ctx context.Context, c *quota.Credential, l quota.Loan) (changes bool, err error) {
	err = r.carry(ctx, c, func(d *draft) error {
		var e quota.Entry
		if e, changes = l.Lends(quota.Lending(d.account().Lent[l.Limit], d.now), d.now); changes {
			d.add(e, l.Caller)
		}
		return nil
	})
	return changes && err == nil, err
}

// reset begins another generation. Where the log is ahead of the clock, it begins at the
// clock again. It voids all that the resets before it do: of those a lost log may lack one.
func (r *replica) reset(ctx context.Context, c *quota.Credential, by quota.Caller, note string) error {
	return r.carry(ctx, c, func(d *draft) error {
		until := time.UnixMilli(max(d.clock.UnixMilli(), d.copy.facts.Position.ID.Ms, d.copy.facts.VoidTo)).UTC()
		d.add(quota.Entry{Kind: quota.KindReset, Note: note, Until: until}, by)
		d.sure, d.gen = true, d.copy.facts.Gen+1
		d.wipe = d.copy.facts.Position.ID.Ms > d.clock.UnixMilli()
		return nil
	})
}
