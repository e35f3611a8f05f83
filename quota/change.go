package quota

import (
	"fmt"
	"time"
)

// A Change closes a limit until a time, or opens it.
type Change struct {
	Limit string
	Kind  Kind // KindClosing or KindOpening
	// Until is when a closing ends by itself, in whole milliseconds; zero of an opening.
	Until  time.Time
	Note   string // why: the upstream's words, or an operator's
	Caller Caller
}

// Entry returns the entry that a change of a limit writes, and whether it changes anything: a limit
// that is closed until later stays so, and one that is open cannot be opened.
func (k Change) Entry(is LimitState, now time.Time) (e Entry, changes bool) {
	changes = !is.Closed.IsZero()
	if k.Kind == KindClosing {
		changes = k.Until.After(now) && k.Until.After(is.Closed.Until)
	}
	return Entry{Note: k.Note, Body: Changed{k.Kind, k.Limit, k.Until}}, changes
}

const (
	maxNote   = 2000                // bytes
	maxClosed = 32 * 24 * time.Hour // how long a limit may be closed at once
)

// Validate returns why a change of a limit is refused.
func (k Change) Validate(now time.Time) error {
	switch {
	case len(k.Note) > maxNote:
		return fmt.Errorf("the note has %d bytes, at most %d are allowed", len(k.Note), maxNote)
	case k.Kind == KindOpening:
		return nil
	case !k.Until.After(now):
		return fmt.Errorf("%s has passed: nothing is closed", k.Until.UTC().Format(time.RFC3339))
	case k.Until.After(now.Add(maxClosed)):
		return fmt.Errorf("a limit is closed for 32 days at most, until %s", now.Add(maxClosed).UTC().Format(time.RFC3339))
	}
	return nil
}
