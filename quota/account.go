package quota

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"
)

// An Account is what a ledger keeps of one credential beside its log: the sliding
// log as arithmetic. It reads the log only where something leaves a window, where
// a limit must catch up, and to tell a refused caller when to come back.
//
// An account is not safe for concurrent use.
type Account struct {
	Last    ID // the newest entry; the account's clock is never earlier
	Trimmed ID // entries up to here are not in the log any more
	// Lost is the time, in milliseconds since the Unix epoch, up to which entries
	// were dropped that a longer window would have to count; 0 if there are none.
	Lost    int64
	Tallies map[string]*Tally // by limit
}

// Clone returns an account that shares nothing with a.
func (a *Account) Clone() *Account {
	clone := *a
	clone.Tallies = make(map[string]*Tally, len(a.Tallies))
	for name, t := range a.Tallies {
		copied := *t
		clone.Tallies[name] = &copied
	}
	return &clone
}

// A Debits is a log, oldest entry first.
type Debits interface {
	// After yields the entries behind id.
	After(id ID) iter.Seq[Entry]
}

// Now returns the time of the account's clock when a host's clock shows t: in
// whole milliseconds, and never before the newest entry.
func (a *Account) Now(t time.Time) time.Time {
	return time.UnixMilli(max(t.UnixMilli(), a.Last.Ms)).UTC()
}

// Advance brings every limit of c up to now: counts what it has not counted
// yet, and drops what has left its window.
func (a *Account) Advance(c *Credential, now time.Time, log Debits) {
	for i, limit := range c.Limits {
		after, _ := limit.Window.Bounds(now)
		cutoff := after.UnixMilli()
		t := a.tally(c, i, cutoff)
		if t.Seen.Less(a.Last) {
			a.catchUp(t, c, i, cutoff, log)
		}
		for d := range log.After(t.Gone) {
			if d.ID.Ms > cutoff {
				break
			}
			t.leave(d.UnitsIn(c, i))
			t.Gone = d.ID
		}
	}
}

// tally returns the i-th limit's total, begun anew where it cannot be carried on:
// when the limit is new, prices differently, or looks back further than before.
func (a *Account) tally(c *Credential, i int, cutoff int64) *Tally {
	if a.Tallies == nil {
		a.Tallies = make(map[string]*Tally)
	}
	name, basis := c.Limits[i].Name, c.Basis(i)
	t := a.Tallies[name]
	if t == nil {
		t = &Tally{}
		a.Tallies[name] = t
	}
	longer := t.Gone.Ms > cutoff && a.Trimmed.Less(t.Gone)
	if t.Basis != basis || longer || t.Gone.Less(a.Trimmed) {
		*t = Tally{Credit: t.Credit, Gone: a.Trimmed, Seen: a.Trimmed, Basis: basis}
	}
	return t
}

// catchUp counts the entries that a limit has not seen. Those that have left its
// window already never were in it.
func (a *Account) catchUp(t *Tally, c *Credential, i int, cutoff int64, log Debits) {
	for d := range log.After(t.Seen) {
		if d.ID.Ms <= cutoff && t.Sum == 0 {
			t.Gone = d.ID
		} else {
			t.Sum += d.UnitsIn(c, i)
		}
	}
	t.Seen = a.Last
	t.Credit = min(t.Credit, t.Sum)
}

// Decide decides ask at now: reason, limit and time to retry. Advance must have
// been called for now. Nothing is debited yet.
func (a *Account) Decide(c *Credential, ask Ask, now time.Time, log Debits) Decision {
	d := Decision{Units: Max(ask.Charges)}
	for _, charge := range ask.Charges {
		at := a.fits(c, charge, ask.UseReserve, now, log)
		if at.After(d.RetryAt) {
			d.Reason, d.Limit = LimitExceeded, charge.Limit
			d.RetryAt, d.RetryAfter = at, at.Sub(now)
		}
	}
	return d
}

// fits returns when a charge fits its limit if nothing else happens, or the
// zero time if it fits now.
func (a *Account) fits(c *Credential, charge Charge, useReserve bool, now time.Time, log Debits) time.Time {
	i := c.Index(charge.Limit)
	limit, t := c.Limits[i], a.Tallies[charge.Limit]
	at := a.CatchingUp(limit.Window, now)
	missing := t.Used() + charge.Units - limit.Budget(useReserve)
	if missing <= 0 {
		return at
	}
	if _, end := limit.Window.Bounds(now); !end.IsZero() {
		return later(at, end)
	}
	rest := *t
	for d := range log.After(t.Gone) {
		if missing -= rest.leave(d.UnitsIn(c, i)); missing <= 0 {
			return later(at, d.ID.Time().Add(limit.Window.Length))
		}
	}
	return later(at, now.Add(limit.Window.Length))
}

// CatchingUp returns when the log reaches back as far as the window again, or
// the zero time if it does at now.
func (a *Account) CatchingUp(w Window, now time.Time) time.Time {
	after, end := w.Bounds(now)
	if a.Lost <= after.UnixMilli() {
		return time.Time{}
	}
	if !end.IsZero() {
		return end
	}
	return time.UnixMilli(a.Lost).UTC().Add(w.Length)
}

// State returns limit i of c at now, with what leaves its window next. Advance
// must have been called for now.
func (a *Account) State(c *Credential, i int, now time.Time, log Debits) LimitState {
	t := a.Tallies[c.Limits[i].Name]
	s := LimitState{Limit: c.Limits[i], Used: t.Used(), CatchingUp: a.CatchingUp(c.Limits[i].Window, now)}
	if s.Used == 0 {
		return s
	}
	if _, end := s.Window.Bounds(now); !end.IsZero() {
		s.NextAt, s.NextUnits = end, s.Used
		return s
	}
	rest := *t
	var at int64
	for d := range log.After(t.Gone) {
		if s.NextUnits > 0 && d.ID.Ms != at {
			break
		}
		at = d.ID.Ms
		s.NextUnits += rest.leave(d.UnitsIn(c, i))
	}
	s.NextAt = time.UnixMilli(at).UTC().Add(s.Window.Length)
	return s
}

// States returns the limits that charges count against, as they stand now.
func (a *Account) States(c *Credential, charges []Charge, now time.Time) []LimitState {
	states := make([]LimitState, len(charges))
	for i, charge := range charges {
		limit, _ := c.Limit(charge.Limit)
		states[i] = LimitState{
			Limit:      limit,
			Used:       a.Tallies[limit.Name].Used(),
			Cost:       charge.Units,
			CatchingUp: a.CatchingUp(limit.Window, now),
		}
	}
	return states
}

// Next returns the id of an entry written at now.
func (a *Account) Next(now time.Time) ID {
	if ms := now.UnixMilli(); ms > a.Last.Ms {
		return ID{Ms: ms}
	}
	return ID{Ms: a.Last.Ms, Seq: a.Last.Seq + 1}
}

// Debit counts a new entry in every limit of c. Advance must have been called.
func (a *Account) Debit(c *Credential, d Entry) {
	a.Last = d.ID
	for i, limit := range c.Limits {
		t := a.Tallies[limit.Name]
		t.Sum += d.UnitsIn(c, i)
		t.Seen = d.ID
	}
}

// Settle sets a counted entry to what was really spent, and d with it, and returns
// what the log is to tell of it. It fails, and changes nothing, when a limit would count more than MaxUnits.
func (a *Account) Settle(c *Credential, d *Entry, to Units) (trace Entry, err error) {
	settled := *d
	trace = Entry{Kind: KindSettlement, Grant: d.ID, SettledTo: to}
	trace.Before, trace.After = settled.Settle(to)
	for i, limit := range c.Limits {
		if a.counts(limit.Name, d.ID) && a.Tallies[limit.Name].Sum+settled.UnitsIn(c, i)-d.UnitsIn(c, i) > MaxUnits {
			return Entry{}, fmt.Errorf("limit %q would hold more than %s", limit.Name, MaxUnits.Text())
		}
	}
	for i, limit := range c.Limits {
		if t := a.Tallies[limit.Name]; a.counts(limit.Name, d.ID) {
			t.Sum += settled.UnitsIn(c, i) - d.UnitsIn(c, i)
			t.Credit = min(t.Credit, t.Sum)
		}
	}
	a.forgetAbsent(c)
	*d = settled
	return trace, nil
}

// forgetAbsent drops the totals of limits that are not configured now: they did
// not follow a correction, and would be wrong if they came back.
func (a *Account) forgetAbsent(c *Credential) {
	maps.DeleteFunc(a.Tallies, func(name string, _ *Tally) bool {
		_, configured := c.Limit(name)
		return !configured
	})
}

// counts tells whether an entry is in the window of a limit.
func (a *Account) counts(limit string, id ID) bool {
	return a.Tallies[limit].Gone.Less(id)
}

// Counted tells whether an entry is in the window of any limit of c.
func (a *Account) Counted(c *Credential, id ID) bool {
	return slices.ContainsFunc(c.Limits, func(l Limit) bool { return a.counts(l.Name, id) })
}

// Expired returns the id up to which no limit of c needs the log any more.
func (a *Account) Expired(c *Credential) ID {
	oldest := a.Last
	for _, limit := range c.Limits {
		if t := a.Tallies[limit.Name]; t.Gone.Less(oldest) {
			oldest = t.Gone
		}
	}
	return oldest
}

// Trim records that entries up to id were deleted from the log.
func (a *Account) Trim(id ID) { a.Trimmed, a.Lost = id, id.Ms }

// Adjust gives units back below zero, to the oldest entries first and never more
// than are used, and returns how many. Above zero it only checks that they can be
// counted: the entry that books them is debited like any other.
func (a *Account) Adjust(limit string, units int64) (Units, error) {
	t := a.Tallies[limit]
	if t == nil {
		return 0, fmt.Errorf("unknown limit %q", limit)
	}
	if units > int64(MaxUnits-t.Sum) || units < -int64(MaxUnits) {
		return 0, fmt.Errorf("limit %q would hold more than %s", limit, MaxUnits.Text())
	}
	if units > 0 {
		return Units(units), nil
	}
	given := min(Units(-units), t.Used())
	t.Credit += given
	return given, nil
}

// Reset makes every limit start from zero; the log up to Last is to be deleted.
func (a *Account) Reset() {
	a.Trimmed, a.Lost, a.Tallies = a.Last, 0, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
