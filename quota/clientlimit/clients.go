package clientlimit

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"quotad/quota"
)

// Clients are the callers of one API, and what each of them may do.
type Clients struct {
	Name      string
	Algorithm Algorithm
	// Limits are what each subject has to itself, 1 to MaxLimits of them: a grant is
	// debited in every one, or in none. Their windows slide and are of whole seconds, and
	// their names and windows all differ. They have no reserve and count every operation.
	Limits []quota.Limit
	// Operations says what one call costs, in every limit, from 1 to MaxUnits. An operation
	// that is not listed is refused; a call that names none costs 1.
	Operations map[string]quota.Units
	// Kept are windows that the same clients have on other hosts: a record keeps what those
	// count.
	Kept []time.Duration
	// Plain keeps subjects as they are; otherwise, a reader of the ledger learns none.
	Plain bool
	// OpenOnOutage grants calls, and does not count them, while the ledger cannot decide.
	OpenOnOutage bool
}

// MaxLimits bounds a subject's record.
const MaxLimits = 8

// An Algorithm is how a subject's usage is kept.
type Algorithm string

// The algorithms.
const (
	// Log keeps each grant with its time: exact, in memory that grows with the units.
	Log Algorithm = "log"
	// Counter keeps two sums per limit, those of the current window of the clock and of the
	// one before, and weights the latter by how much of it is in the trailing window: an
	// approximation, in constant memory.
	Counter Algorithm = "counter"
)

// Bounds of a record's numbers, which are of 32 bits.
const (
	MaxUnits  quota.Units = 1<<32 - 1
	maxWindow             = 366 * 24 * time.Hour
)

// maxLogUnits bounds the record of a log, which is read and written as a whole.
const maxLogUnits = 100_000

// Cost returns what count calls of an operation cost; where the decision is not a grant,
// why there is no such cost. A call without an operation costs 1.
func (c *Clients) Cost(operation string, count quota.Units) (quota.Units, quota.Decision) {
	if count < 1 || count > MaxUnits {
		return 0, quota.Decision{Reason: quota.BadRequest, Detail: fmt.Sprintf("count must be a whole number from 1 to %d", MaxUnits)}
	}
	if operation == "" {
		return count, quota.Decision{}
	}
	each, known := c.Operations[operation]
	switch {
	case !known:
		return 0, quota.Decision{Reason: quota.UnknownOperation, Detail: fmt.Sprintf("clients %s have no operation %.80q", c.Name, operation),
			Hint: "list it under [clients." + c.Name + ".operations]"}
	case count > MaxUnits/each:
		return MaxUnits + 1, quota.Decision{} // more than any limit has
	}
	return each * count, quota.Decision{}
}

// Validate returns everything that is wrong with the clients, or nil.
func (c *Clients) Validate() []*quota.FieldError {
	var wrong []*quota.FieldError
	fail := func(format string, args []any, path ...string) {
		wrong = append(wrong, &quota.FieldError{Path: path, Message: fmt.Sprintf(format, args...)})
	}
	if err := quota.CheckName(c.Name); err != nil {
		fail("%v", []any{err})
	}
	if c.Algorithm != Log && c.Algorithm != Counter {
		fail("unknown algorithm %q: use log or counter", []any{c.Algorithm}, "algorithm")
	}
	if len(c.Limits) == 0 || len(c.Limits) > MaxLimits {
		fail("clients need at least one limit, and have at most %d: %d", []any{MaxLimits, len(c.Limits)}, "limits")
	}
	for i, limit := range c.Limits {
		wrong = append(wrong, c.validateLimit(limit, c.Limits[:i])...)
	}
	for _, operation := range slices.Sorted(maps.Keys(c.Operations)) {
		units := c.Operations[operation]
		if err := quota.CheckOperation(operation); err != nil {
			fail("%v", []any{err}, "operations", operation)
		}
		if units < 1 || units > MaxUnits {
			fail("the cost must be from 1 to %d: %d", []any{MaxUnits, units}, "operations", operation)
		}
		for _, limit := range c.Limits {
			if limit.Units > 0 && units > limit.Units { // else it is the limit that is wrong
				fail("costs %s, which can never fit limit %q: %s", []any{units.Text(), limit.Name, limit.Units.Text()}, "operations", operation)
			}
		}
	}
	return wrong
}

func (c *Clients) validateLimit(l quota.Limit, before []quota.Limit) []*quota.FieldError {
	var wrong []*quota.FieldError
	fail := func(key, format string, args ...any) {
		wrong = append(wrong, &quota.FieldError{Path: []string{"limits", l.Name, key}, Message: fmt.Sprintf(format, args...)})
	}
	if err := quota.CheckName(l.Name); err != nil {
		wrong = append(wrong, &quota.FieldError{Path: []string{"limits", l.Name}, Message: err.Error()})
	}
	length := l.Window.Length
	if l.Window.IsCalendar() || length < time.Second || length%time.Second != 0 || length > maxWindow {
		fail("window", "must be a trailing time of whole seconds, from 1s to %v: %v", maxWindow, l.Window)
		return wrong
	}
	for _, other := range before {
		if other.Name == l.Name {
			fail("", "two limits have this name")
		}
		if other.Window == l.Window {
			fail("window", "limit %q has the same: the smaller of the two is enough", other.Name)
		}
	}
	if l.Units < 1 || l.Units > MaxUnits {
		fail("units", "must be from 1 to %d: %d", MaxUnits, l.Units)
	}
	if c.Algorithm == Log && l.Units > maxLogUnits {
		fail("units", "must be at most %s with the algorithm log, which keeps each grant: %d; the algorithm counter takes more", quota.Thousands(maxLogUnits), l.Units)
	}
	// The counter multiplies units and ms: the product must be exact.
	if c.Algorithm == Counter && l.Units > quota.MaxUnits/quota.Units(length.Milliseconds()) {
		fail("units", "must be at most %d with a window of %v and the algorithm counter: %d", quota.MaxUnits/quota.Units(length.Milliseconds()), length, l.Units)
	}
	return wrong
}
