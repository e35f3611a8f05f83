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
	Algorithm Algorithm `toml:"algorithm" oneof:"log counter" default:"log"`
	// Limits are what each subject has to itself, at least one: a grant is debited in every one, or in none. Their
	// windows slide and are of whole seconds; all differ, as their names. They have no reserve and count everything.
	Limits []quota.Limit
	// Operations says what one call costs, in every limit, from 1 to MaxUnits. An operation that is not listed is
	// refused; a call that names none costs 1.
	Operations map[string]quota.Units `toml:"operations" by:"operation"`
	// OpenOnOutage grants calls, and does not count them, while the ledger cannot decide.
	OpenOnOutage bool
}

// An Algorithm is how a subject's usage is kept.
type Algorithm string

// The algorithms.
const (
	// Log keeps each grant with its time: exact, in memory that grows with the units.
	Log Algorithm = "log"
	// Counter keeps two sums per limit, in constant memory: c, of the window of the clock that is now, and p, of the
	// one before. With U units in a window of W ms, of which e ms are over, n units are granted if c + ⌈p × (W−e)/W⌉ +
	// n ≤ U. In any trailing window that is less than 2U: nearly so for a subject that spends U at the very end of one
	// window, and then all that the formula allows. Within a window of the clock, never more than U; and a denial ends
	// in less than 2W.
	Counter Algorithm = "counter"
)

// MaxUnits bounds what a call costs, and what a limit has.
const MaxUnits quota.Units = 1<<32 - 1

// maxLogUnits bounds the entries of a log.
const maxLogUnits = 100_000

// price returns what a request costs, or why it is refused without asking the ledger.
func (c *Clients) price(r Request) (quota.Units, quota.Decision) {
	each, known := c.Operations[r.Operation]
	switch {
	case r.Subject == "":
		return 0, quota.Decision{Reason: quota.BadRequest, Detail: "subject is missing or empty: it says who calls, by an address, a user or a key"}
	case r.Count < 1 || r.Count > MaxUnits:
		return 0, quota.Decision{Reason: quota.BadRequest, Detail: fmt.Sprintf("count must be a whole number from 1 to %d", MaxUnits)}
	case r.Operation == "":
		return r.Count, quota.Decision{}
	case !known:
		return 0, quota.Decision{Reason: quota.UnknownOperation, Detail: fmt.Sprintf("clients %s have no operation %.80q", c.Name, r.Operation),
			Hint: "list it under [clients." + c.Name + ".operations]"}
	case r.Count > MaxUnits/each:
		return MaxUnits + 1, quota.Decision{} // more than any limit has
	}
	return each * r.Count, quota.Decision{}
}

// Validate returns everything that is wrong with the clients, or nil.
func (c *Clients) Validate() (wrong []*quota.FieldError) {
	fail := func(path []string, format string, args ...any) {
		wrong = append(wrong, &quota.FieldError{Path: path, Message: fmt.Sprintf(format, args...)})
	}
	if err := quota.CheckName(c.Name); err != nil {
		fail(nil, "%v", err)
	}
	if c.Algorithm != Log && c.Algorithm != Counter {
		fail([]string{"algorithm"}, "unknown algorithm %q: use log or counter", c.Algorithm)
	}
	if len(c.Limits) == 0 {
		fail([]string{"limits"}, "clients need at least one limit")
	}
	for i, l := range c.Limits {
		if err := quota.CheckName(l.Name); err != nil {
			fail([]string{"limits", l.Name}, "%v", err)
		}
		c.check(l, c.Limits[:i], func(key, format string, args ...any) { fail([]string{"limits", l.Name, key}, format, args...) })
	}
	for _, operation := range slices.Sorted(maps.Keys(c.Operations)) {
		at, units := []string{"operations", operation}, c.Operations[operation]
		if err := quota.CheckOperation(operation); err != nil {
			fail(at, "%v", err)
		}
		if units < 1 || units > MaxUnits {
			fail(at, "the cost must be from 1 to %d: %d", MaxUnits, units)
		}
		for _, limit := range c.Limits {
			if limit.Units > 0 && units > limit.Units { // else it is the limit that is wrong
				fail(at, "costs %s, which can never fit limit %q: %s", units.Text(), limit.Name, limit.Units.Text())
			}
		}
	}
	return wrong
}

// check checks a limit, which stands behind others.
func (c *Clients) check(l quota.Limit, before []quota.Limit, fail func(key, format string, args ...any)) {
	length := l.Window.Length
	if l.Window.Restarts() || length < time.Second || length%time.Second != 0 || length > quota.LongestWindow {
		fail("window", "must be a trailing time of whole seconds, from 1s to %v: %v", quota.LongestWindow, l.Window)
		return
	}
	for _, other := range before {
		if other.Window == l.Window || other.Name == l.Name {
			fail("window", "limit %q has the same: the smaller of the two is enough", other.Name)
		}
	}
	most := min(MaxUnits, quota.MaxUnits/quota.Units(length.Milliseconds())) // it multiplies units and ms, exactly
	if c.Algorithm == Log {
		most = maxLogUnits
	}
	if l.Units < 1 || l.Units > most {
		fail("units", "must be from 1 to %d with algorithm %s and a window of %v: %d", most, c.Algorithm, length, l.Units)
	}
}
