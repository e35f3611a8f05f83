package slidinglog

import (
	"fmt"
	"slices"

	"quotad/quota"
)

// While the store cannot be reached, open operations are granted on the copy, which has
// every grant that this host heard of: a grant has to fit each limit there, and the
// allowance. What is granted is in the file, synced, before the caller hears of it, and in
// the log when the store is back.

// acquireAway decides asks by policy. down is why the store is not asked.
func (r *replica) acquireAway(c *quota.Credential, asks []quota.Ask, down error) ([]quota.Decision, error) {
	decisions := make([]quota.Decision, len(asks))
	err := r.writeAway(c, down, func(d *draft) error {
		for i, ask := range asks {
			decisions[i] = d.oneAway(ask, down)
		}
		return nil
	})
	if err == nil && !slices.ContainsFunc(decisions, func(d quota.Decision) bool { return d.Err == nil }) {
		err = decisions[0].Err
	}
	if err != nil {
		return nil, err
	}
	return decisions, nil
}

// oneAway decides an ask by policy.
func (d *draft) oneAway(ask quota.Ask, down error) quota.Decision {
	if err := d.refuses([]string{ask.Operation}, down); err != nil {
		return quota.Decision{Err: err}
	}
	_, repeated := d.grantedBefore(keyDigest(ask.Key()))
	if ask.AtMost && (ask.Key() == "" || !repeated) {
		if left := d.allowance(); quota.Max(ask.Charges) > left && ask.Count > 1 {
			ask = ask.Fewer(max(1, min(ask.Count, left/max(1, quota.Max(ask.Charges)/ask.Count))))
			ask.AtMost = true
		}
	}
	decision, granted := d.one(ask)
	decision.Outage = true
	switch {
	case decision.Err != nil || decision.Replayed || decision.Reason == quota.LimitClosed || decision.Reason == quota.RequestIDConflict:
		return decision
	case !granted:
		return quota.Decision{Err: fmt.Errorf("%w: nothing was left of limit %q when the ledger last answered", quota.ErrUnavailable, decision.Limit)}
	}
	e := &d.entries[len(d.entries)-1]
	units := quota.Max(e.Charges)
	if units > d.allowance() {
		d.entries = d.entries[:len(d.entries)-1]
		delete(d.keys, e.Key)
		d.unhold(e.Charges)
		return quota.Decision{Err: fmt.Errorf("%w: the %s for an outage of the ledger are spent", quota.ErrUnavailable, d.policy.Units.Text())}
	}
	d.stamp(e)
	d.copy.facts.Away = append(d.copy.facts.Away, awayGrant{e.ID, units})
	decision.GrantID = quota.GrantID(d.credential.Name, e.ID)
	return decision
}

// stamp gives an entry an id without a place.
func (d *draft) stamp(e *quota.Entry) {
	if e.ID.IsZero() {
		_, run := d.ledger.self()
		e.ID, e.Outage = awayID(d.now.UnixMilli(), d.ledger.numbers.Add(1), run), true
	}
}

// unhold takes back what the last grant of the draft held.
func (d *draft) unhold(charges []quota.Charge) {
	back := slices.Clone(charges)
	for i := range back {
		back[i].Units = -back[i].Units
	}
	d.account().Hold(d.credential, back)
}

// refuses returns why operations are not granted here at all.
func (d *draft) refuses(operations []string, down error) error {
	closed := slices.ContainsFunc(operations, func(operation string) bool { return !d.policy.Open[operation] })
	if d.configured == nil || closed {
		return down
	}
	if d.copy.facts.Position.IsZero() {
		return fmt.Errorf("%w: this host has not read the log yet", down)
	}
	return nil
}

// allowance returns what is left of the units for outages.
func (d *draft) allowance() quota.Units {
	return max(0, d.policy.Units-d.copy.facts.awayUnits(d.copy.oldest()))
}

// awayUnits returns what this host granted on its own since a time.
func (f *facts) awayUnits(oldest int64) (units quota.Units) {
	for _, g := range f.Away {
		if g.ID.Ms > oldest {
			units += g.Units
		}
	}
	return units
}

// peekAway says what acquireAway would decide.
func (r *replica) peekAway(c *quota.Credential, operations []string, charges []quota.Charge, useReserve bool, down error) (decision quota.Decision, err error) {
	if r.ledger.store == nil || !away(down) {
		return decision, down
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err = r.onCopyAway(c, func(d *draft) error {
		if err := d.refuses(operations, down); err != nil {
			return err
		}
		decision = d.account().Decide(c, charges, useReserve, d.clock, d.copy)
		decision.Outage = true
		switch {
		case decision.Reason == quota.LimitClosed:
			return nil
		case !decision.Granted():
			return fmt.Errorf("%w: nothing was left of limit %q when the ledger last answered", quota.ErrUnavailable, decision.Limit)
		case quota.Max(charges) > d.allowance():
			return fmt.Errorf("%w: the %s for an outage of the ledger are spent", quota.ErrUnavailable, d.policy.Units.Text())
		}
		return nil
	})
	return decision, err
}

// onCopyAway has f draft on the copy as of the estimated time. mu is held.
func (r *replica) onCopyAway(c *quota.Credential, f func(*draft) error) (*draft, error) {
	if r.copy.facts.Quiet != nil {
		return nil, quota.ErrRecovering
	}
	d := &draft{replica: r, credential: c, clock: r.estimated(), keys: make(map[string]int), replays: make(map[int]int)}
	r.copy.credential = c
	err := r.copy.with(func() error {
		d.now = r.copy.advance(d.clock)
		defer d.account().Release()
		if r.maybe != nil {
			d.account().Hold(c, r.maybe.charges)
		}
		return f(d)
	})
	return d, err
}

// writeAway has f draft on the copy, and keeps what it drafted in the file until the log has
// it.
func (r *replica) writeAway(c *quota.Credential, down error, f func(*draft) error) error {
	host, run := r.ledger.self()
	l := r.ledger
	l.gate.RLock()
	defer l.gate.RUnlock()
	if err := l.file.Room(r.name, frameRoom+awayRoom); err != nil {
		return err
	}
	r.mu.Lock()
	before := len(r.copy.facts.Away)
	d, err := r.onCopyAway(c, f)
	if err == nil && len(d.entries) > 0 {
		for i := range d.entries {
			d.stamp(&d.entries[i])
		}
		err = r.copy.with(func() error {
			for _, e := range d.entries {
				r.copy.put(e, false)
			}
			return nil
		})
	}
	gen := r.copy.facts.Gen
	if err == nil && r.refused == nil && len(d.entries) > 0 { // up again since the caller saw it down
		r.refused, r.since = errReplaying, l.clock()
		r.wake()
	}
	r.mu.Unlock()
	if err != nil {
		r.mu.Lock()
		r.copy.facts.Away = r.copy.facts.Away[:min(before, len(r.copy.facts.Away))]
		r.mu.Unlock()
		return r.unavailable(err)
	}
	if len(d.entries) == 0 {
		return nil
	}
	record := Record{Tag: l.newTag(), Host: host, Run: run, Gen: gen, Entries: d.entries}
	if err := l.file.Append(r.name, frame(frameUnplaced, quota.ID{}, record.Body()), true); err != nil {
		return r.unavailable(err) // counted all the same
	}
	if d.done != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.unavailable(r.copy.with(func() error {
			d.done(r.copy.advance(d.clock))
			return nil
		}))
	}
	return nil
}

// awayRoom is what the records of an outage take at most, roughly: a batch of grants.
const awayRoom = 64 << 10
