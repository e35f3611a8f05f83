package quota

import (
	"slices"
	"time"
)

// A Lent is a loan that is in the log: from Since on, and before Until, a limit is
// higher by Units.
type Lent struct {
	Units Units     `json:"units"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	Note  string    `json:"note,omitempty"` // the Note of its Change
	By    string    `json:"by"`             // who lent it: its Caller.By
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

// LongestLoan is for how long the limit may be lent to at once.
func (l Limit) LongestLoan() time.Duration { return min(maxLent, l.Window.Nominal()) }

// Budget is the limit's budget, loans included.
func (s LimitState) Budget(useReserve bool) Units { return s.Limit.Budget(useReserve) + s.LentUnits() }

// Total is the limit's units per window, loans included.
func (s LimitState) Total() Units { return s.Units + s.LentUnits() }

// LentUnits is the sum of the limit's loans.
func (s LimitState) LentUnits() (sum Units) {
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
		if over > 0 && !s.DryRun {
			return false
		}
	}
	return true
}
