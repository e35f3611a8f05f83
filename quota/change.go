package quota

import (
	"fmt"
	"time"
)

// A Change closes a limit until a time, opens it, makes it higher until a time, or ends that.
type Change struct {
	Limit string
	Kind  Kind // KindClosing, KindOpening or KindLoan
	// Units is by how much a loan makes the limit higher, on top of its other loans; zero ends every
	// loan of the limit now.
	Units Units
	// Until is when a closing or a loan ends by itself, in whole milliseconds; zero where something
	// ends now.
	Until  time.Time
	Note   string // why: the upstream's words, or an operator's
	Caller Caller
}

// ends reports whether the change ends something now.
func (k Change) ends() bool { return k.Kind == KindOpening || k.Kind == KindLoan && k.Units == 0 }

// Entry returns the entry that a change of a limit writes, and whether it changes anything: a limit
// that is closed until later stays so, one that is open cannot be opened, and where nothing is
// lent, nothing ends.
func (k Change) Entry(is LimitState, now time.Time) (e Entry, changes bool) {
	switch {
	case k.Kind == KindOpening:
		changes = !is.Closed.IsZero()
	case k.Kind == KindClosing:
		changes = k.Until.After(now) && k.Until.After(is.Closed.Until)
	case k.Units > 0:
		changes = k.Until.After(now)
	default: // the log keeps the end until then: it must outlast what it ends
		for _, l := range is.Lent {
			changes = true
			if l.Until.After(k.Until) {
				k.Until = l.Until
			}
		}
	}
	return Entry{Note: k.Note, Body: Changed{k.Kind, k.Limit, k.Units, k.Until}}, changes
}

const (
	maxNote   = 2000                // bytes
	maxClosed = 32 * 24 * time.Hour // how long a limit may be closed at once
	maxLoans  = 16                  // of a limit at once
	maxLent   = 7 * 24 * time.Hour  // how long a loan may run
)

// Validate returns why a change of the limit, as it is now, is refused.
func (k Change) Validate(credential string, is LimitState, now time.Time) error {
	switch {
	case len(k.Note) > maxNote:
		return fmt.Errorf("the note has %d bytes, at most %d are allowed", len(k.Note), maxNote)
	case k.ends():
		return nil
	case k.Kind == KindLoan:
		return k.validateLoan(credential, is, now)
	case !k.Until.After(now):
		return fmt.Errorf("%s has passed: nothing is closed", k.Until.UTC().Format(time.RFC3339))
	case k.Until.After(now.Add(maxClosed)):
		return fmt.Errorf("a limit is closed for 32 days at most, until %s", now.Add(maxClosed).UTC().Format(time.RFC3339))
	}
	return nil
}

// validateLoan returns why a loan's units or time are refused.
func (k Change) validateLoan(credential string, is LimitState, now time.Time) error {
	longest := is.LongestLoan()
	switch {
	case k.Units < 0 || k.Units > MaxUnits:
		return fmt.Errorf("the units of a loan must be a whole number from 1 to %d: to take some from limit %q lower it in the configuration, or close it", MaxUnits, is.Name)
	case is.Total() > MaxUnits-k.Units:
		return fmt.Errorf("limit %q would have more than %s", is.Name, MaxUnits.Text())
	case !k.Until.After(now):
		return fmt.Errorf("%s has passed: nothing is lent", k.Until.UTC().Format(time.RFC3339))
	case k.Until.After(now.Add(longest)):
		return fmt.Errorf("limit %q counts %s, and is lent to for %s at most, until %s: for longer, raise it in the configuration",
			is.Name, is.Window.Describe(), Brief(longest), now.Add(longest).UTC().Format(time.RFC3339))
	case len(is.Lent) >= maxLoans:
		return fmt.Errorf("limit %q has %d loans already, the most at once: end them first, with quotactl lend %s %s 0", is.Name, maxLoans, credential, is.Name)
	}
	return nil
}
