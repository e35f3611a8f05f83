package quota

import (
	"fmt"
	"time"
)

// A Change closes a limit until a time, or opens it.
type Change struct {
	Limit  string
	Kind   Kind      // KindClosing or KindOpening
	Until  time.Time // when a closing ends by itself, in whole milliseconds; zero of an opening
	Note   string    // why: the upstream's words, or an operator's
	Caller Caller
}

// Changes reports whether a change alters what a limit is: one that is closed until later stays so, and one that is
// open cannot be opened.
func (k Change) Changes(is LimitState, now time.Time) bool {
	if k.Kind == KindOpening {
		return !is.Closed.IsZero()
	}
	return k.Until.After(now) && k.Until.After(is.Closed.Until)
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

// Closed says that nothing is granted from a limit before a time. Its zero value means that the limit is open.
type Closed struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	Says  string    `json:"says,omitempty"` // the Note of its Change: the upstream's words, or an operator's
	By    string    `json:"by"`             // who closed it: its Caller.By
}

// At returns c until its time, and the zero value afterwards.
func (c Closed) At(now time.Time) Closed {
	if !now.Before(c.Until) {
		return Closed{}
	}
	return c
}

// IsZero reports whether the limit is open.
func (c Closed) IsZero() bool { return c.Until.IsZero() }
