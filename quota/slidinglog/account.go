package slidinglog

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"quotad/quota"
)

// An Account decides about the requests of a credential. It keeps the time and a view of each
// limit. It reads the log when entries leave a window, when a view begins, and to compute when a
// refused request fits. It is not safe for concurrent use.
type Account struct {
	Clock int64 // in ms since the Unix epoch: the account's time is never earlier
	// Lost is the time, in ms, up to which entries were dropped that a longer window would have
	// to count; 0: none.
	Lost int64
	// Closed has the closed limits by name. Some may be open again.
	Closed map[string]quota.Closed

	views []*View // in the order of the credential's limits
}

// Now returns the account's time at a host's clock: in whole milliseconds, and never before Clock.
func (a *Account) Now(t time.Time) time.Time {
	return time.UnixMilli(max(t.UnixMilli(), a.Clock)).UTC()
}

// Advance advances the view of every limit of c to a host's clock, and returns the account's time.
// It drops what has left a window, and reads new views from the log.
func (a *Account) Advance(c *quota.Credential, clock time.Time, log Entries) time.Time {
	now := a.Now(clock)
	if fresh := a.follow(c, now); len(fresh) > 0 {
		first := slices.MinFunc(fresh, func(x, y *View) int { return cmp.Compare(x.after, y.after) })
		for e := range log.After(first.start()) {
			for _, v := range fresh {
				v.add(&e)
			}
		}
	}
	for _, v := range a.views {
		v.expire(begins(v.Limit().Window, now), log)
	}
	return now
}

// begins returns the ms after which a window begins.
func begins(w quota.Window, now time.Time) int64 {
	after, _ := w.Bounds(now)
	return after.UnixMilli()
}

// follow makes the views those of the limits of c, and returns the new ones. A view is also new if
// its window begins earlier than before, because the clock was set back.
func (a *Account) follow(c *quota.Credential, now time.Time) (fresh []*View) {
	views := make([]*View, len(c.Limits))
	for i, limit := range c.Limits {
		after := begins(limit.Window, now)
		at := slices.IndexFunc(a.views, func(v *View) bool { return v.shows(c, i) && v.after <= after })
		if at < 0 {
			views[i] = &View{credential: c, limit: i, prices: c.Basis(i), after: after}
			fresh = append(fresh, views[i])
			continue
		}
		views[i] = a.views[at]
		views[i].credential, views[i].limit = c, i
	}
	a.views = views
	return fresh
}

// Used returns the units of each limit, in their order. Advance must have been called.
func (a *Account) Used() []quota.Units {
	used := make([]quota.Units, len(a.views))
	for i, v := range a.views {
		used[i] = v.used
	}
	return used
}

// Hold counts charges that are not in the log yet, until Release. Units that an adjustment may have
// returned count as used.
func (a *Account) Hold(c *quota.Credential, charges []quota.Charge) {
	for _, charge := range charges {
		if i := c.Index(charge.Limit); i >= 0 && charge.Units > 0 {
			a.views[i].hold(charge.Units)
		}
	}
}

// HoldChange counts a correction of an entry that is not in the log yet, until Release.
func (a *Account) HoldChange(was, is *quota.Entry) {
	for _, v := range a.views {
		if v.contains(is.ID) {
			v.hold(v.Units(is) - v.Units(was))
		}
	}
}

// holdAgain drops what was held since Used returned used.
func (a *Account) holdAgain(used []quota.Units) {
	for i, v := range a.views {
		v.hold(used[i] - v.used)
	}
}

// Release drops what is held.
func (a *Account) Release() {
	for _, v := range a.views {
		v.used -= v.held
		v.held = 0
	}
}

// Decide decides about charges of c, and debits nothing: reason, limit and time to retry, and the
// state of the limits involved. Advance must have been called at this clock.
func (a *Account) Decide(c *quota.Credential, charges []quota.Charge, useReserve bool, clock time.Time, log Entries) quota.Decision {
	now := a.Now(clock)
	d := quota.Decision{Units: quota.Max(charges), Limits: a.States(c, charges, now)}
	for _, charge := range charges {
		at := a.fits(a.views[c.Index(charge.Limit)], charge.Units, useReserve, now, log)
		if at.After(d.RetryAt) {
			d.Reason, d.Limit, d.RetryAt = quota.LimitExceeded, charge.Limit, at
		}
	}
	d.Close(time.UnixMilli(clock.UnixMilli()))
	if d.Denied() {
		d.RetryAfter = d.RetryAt.Sub(time.UnixMilli(clock.UnixMilli())) // by the caller's clock
	}
	return d
}

// fits returns when units fit a limit if nothing else happens, or the zero time if they fit now.
func (a *Account) fits(v *View, units quota.Units, useReserve bool, now time.Time, log Entries) time.Time {
	limit := v.Limit()
	if limit.DryRun { // only the largest number is a bound
		return v.fits(v.used+units-quota.MaxUnits, now, log)
	}
	return quota.Later(a.CatchingUp(limit.Window, now), v.fits(v.used+units-limit.Budget(useReserve), now, log))
}

// CatchingUp returns when the log covers the window again, or the zero time if it does at now.
func (a *Account) CatchingUp(w quota.Window, now time.Time) time.Time {
	after, end := w.Bounds(now)
	if a.Lost <= after.UnixMilli() {
		return time.Time{}
	}
	if !end.IsZero() {
		return end
	}
	return time.UnixMilli(a.Lost).UTC().Add(w.Length)
}

// State returns limit i at now, with its next expiry. Advance must have been called.
func (a *Account) State(i int, now time.Time, log Entries) quota.LimitState {
	v := a.views[i]
	s := a.state(v, now)
	if s.Used == 0 {
		return s
	}
	if _, end := s.Window.Bounds(now); !end.IsZero() {
		s.NextAt, s.NextUnits = end, s.Used
	} else {
		s.NextAt, s.NextUnits = v.nextExpiry(log)
	}
	return s
}

// States returns the limits that charges count against, at now.
func (a *Account) States(c *quota.Credential, charges []quota.Charge, now time.Time) []quota.LimitState {
	states := make([]quota.LimitState, len(charges))
	for i, charge := range charges {
		states[i] = a.state(a.views[c.Index(charge.Limit)], now)
		states[i].Cost = charge.Units
	}
	return states
}

func (a *Account) state(v *View, now time.Time) quota.LimitState {
	limit := v.Limit()
	s := quota.LimitState{Limit: limit, Used: v.used, CatchingUp: a.CatchingUp(limit.Window, now)}
	if len(a.Closed) > 0 { // few limits ever are
		s.Closed = a.Closed[limit.Name].At(now)
	}
	return s
}

// Add counts a new entry of the log. Advance must have been called.
func (a *Account) Add(e *quota.Entry) {
	for _, v := range a.views {
		v.add(e)
	}
}

// Change counts the change of an entry by a correction.
func (a *Account) Change(was, is *quota.Entry) {
	for _, v := range a.views {
		v.change(is.ID, v.Units(is)-v.Units(was))
	}
}

// forbids returns why a settlement may not make is of an entry that was; empty: it may.
func (a *Account) forbids(s quota.Settlement, was, is *quota.Entry, now time.Time) string {
	granted, settled, narrowest, why := *was, *is, quota.MaxUnits, ""
	g, _ := was.Grant()
	g.Settled = false
	granted.Body, granted.GivenBack, settled.GivenBack = g, nil, nil // what it costs, whatever adjustments returned of it
	for _, v := range a.views {
		l, to := a.state(v, now), v.Units(&settled)
		more := v.Units(is) - v.Units(was)
		if !s.Bounded || more <= 0 || !v.contains(is.ID) || l.DryRun {
			continue
		}
		most, left := l.Budget(s.UseReserve), max(0, l.Budget(false)-l.Used)
		switch {
		case to > max(most, v.Units(&granted)) && most < narrowest:
			narrowest, why = most, fmt.Sprintf("no call costs %s: limit %s has %s in all", to.Text(), l.Name, quota.Thousands(most))
		case s.Caller.Remote != "" && more > left && why == "":
			why = fmt.Sprintf("this adds %s, and limit %s has %s left for this caller", more.Text(), l.Name, quota.Thousands(left))
		}
	}
	return why
}

// Fits fails when a limit would count more than quota.MaxUnits if was became is.
func (a *Account) Fits(was, is *quota.Entry) error {
	for _, v := range a.views {
		by := v.Units(is) - v.Units(was)
		if err := v.room(by); err != nil && v.contains(is.ID) && by > 0 {
			return err
		}
	}
	return nil
}

// Counted reports whether an entry is in the window of any limit.
func (a *Account) Counted(id quota.ID) bool {
	return slices.ContainsFunc(a.views, func(v *View) bool { return v.contains(id) })
}
