package quota

import (
	"fmt"
	"slices"
	"time"
)

// A Loan makes a limit higher until a time, or ends its loans.
type Loan struct {
	Limit string
	// Units is by how much, on top of its other loans; zero ends every loan of the limit now.
	Units Units
	// Until is when the loan ends by itself, in whole milliseconds; unused where Units is zero.
	Until  time.Time
	Note   string // why, for people
	Caller Caller
}

// A Lent is a loan that is in the log: from Since on, and before Until, a limit is
// higher by Units.
type Lent struct {
	Units        Units
	Since, Until time.Time
	Note         string // why, as its Loan had it
	By           string // who lent it: its Caller.By
}

// Lending returns the loans that still run at a time, in their order.
func Lending(loans []Lent, now time.Time) []Lent {
	var running []Lent
	for _, l := range loans {
		if now.Before(l.Until) {
			running = append(running, l)
		}
	}
	return running
}

// Lent returns the loan that an entry made.
func (e *Entry) Lent() Lent {
	return Lent{Units: e.Units, Since: e.ID.Time(), Until: e.Until, Note: e.Note, By: e.By}
}

// Lends returns the entry that a loan writes where a limit has these running loans, and
// whether it changes anything: where nothing is lent, nothing ends.
func (l Loan) Lends(held []Lent, now time.Time) (e Entry, changes bool) {
	e = Entry{Kind: KindLoan, Limit: l.Limit, Units: l.Units, Until: l.Until, Note: l.Note, By: l.Caller.By(), Region: l.Caller.Region}
	if l.Units > 0 {
		return e, l.Until.After(now)
	}
	e.Until = time.Time{}
	if len(held) > 0 { // the log keeps the end until then: it must outlast what it ends
		e.Until = slices.MaxFunc(held, func(a, b Lent) int { return a.Until.Compare(b.Until) }).Until
	}
	return e, len(held) > 0
}

// Budget is the limit's budget, loans included.
func (s LimitState) Budget(useReserve bool) Units { return s.Limit.Budget(useReserve) + s.LentUnits() }

// Total is the limit's units per window, loans included.
func (s LimitState) Total() Units { return s.Units + s.LentUnits() }

// LentUnits is the sum of the limit's loans.
func (s LimitState) LentUnits() Units {
	var sum Units
	for _, l := range s.Lent {
		sum += l.Units
	}
	return sum
}

// LentUntil is when the first of the limit's loans ends; the zero time where it has none.
func (s LimitState) LentUntil() time.Time {
	if len(s.Lent) == 0 {
		return time.Time{}
	}
	return slices.MinFunc(s.Lent, func(a, b Lent) int { return a.Until.Compare(b.Until) }).Until
}

// fitsLent reports whether a decision is a grant, or names a time at which the request fits: a
// request that is larger than a limit fits only while enough is lent.
func (d Decision) fitsLent(useReserve bool) bool {
	if !d.Denied() {
		return true
	}
	for _, s := range d.Limits {
		over := s.Cost - s.Limit.Budget(useReserve)
		for _, l := range Lending(s.Lent, d.RetryAt) {
			over -= l.Units
		}
		if over > 0 && s.bounds() {
			return false
		}
	}
	return true
}

const (
	maxLoans = 16                 // of a limit at once
	maxLent  = 7 * 24 * time.Hour // how long a loan may run
)

// validate returns why a loan to a limit of c is refused, as the limits are now.
func (l Loan) validate(c *Credential, usage Usage) error {
	i := c.Index(l.Limit)
	switch {
	case i < 0:
		return c.unknownLimit(l.Limit)
	case len(l.Note) > maxSays:
		return fmt.Errorf("the note has %d bytes, at most %d are allowed", len(l.Note), maxSays)
	case l.Units == 0:
		return nil
	}
	return l.validateTerms(c.Name, usage.Limits[i], usage.Now)
}

// validateTerms returns why a loan's units or time are refused.
func (l Loan) validateTerms(credential string, s LimitState, now time.Time) error {
	longest := min(maxLent, s.Window.Nominal())
	switch {
	case l.Units < 0 || l.Units > MaxUnits:
		return fmt.Errorf("the units of a loan must be a whole number from 1 to %d: to take some from limit %q lower it in the configuration, or close it", MaxUnits, s.Name)
	case s.Total() > MaxUnits-l.Units:
		return fmt.Errorf("limit %q would have more than %s", s.Name, MaxUnits.Text())
	case !l.Until.After(now):
		return fmt.Errorf("%s has passed: nothing is lent", l.Until.UTC().Format(time.RFC3339))
	case l.Until.After(now.Add(longest)):
		return fmt.Errorf("limit %q counts %s, and is lent to for %s at most, until %s: for longer, raise it in the configuration",
			s.Name, s.Window.Describe(), Brief(longest), now.Add(longest).UTC().Format(time.RFC3339))
	case len(s.Lent) >= maxLoans:
		return fmt.Errorf("limit %q has %d loans already, the most at once: end them first, with quotactl lend %s %s 0", s.Name, maxLoans, credential, s.Name)
	}
	return nil
}
