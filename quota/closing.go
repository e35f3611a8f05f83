package quota

import (
	"fmt"
	"time"
)

// A Closing closes a limit until a time, or opens it.
type Closing struct {
	Limit string
	// Until is when the limit opens by itself, in whole milliseconds; zero opens it now.
	Until time.Time
	// Says is why: the upstream's words, or an operator's.
	Says   string
	Caller Caller
}

// Closed says that nothing is granted from a limit before a time. Its zero value means that
// the limit is open.
type Closed struct {
	Since, Until time.Time
	Says         string // why, as its Closing had it
	By           string // who closed it: its Caller.By
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

// Closes returns the entry that a closing writes where the limit is closed as held says, and
// whether it changes anything: a limit that is closed until later stays so, and one that is
// open cannot be opened.
func (c Closing) Closes(held Closed, now time.Time) (e Entry, changes bool) {
	e = Entry{Kind: KindClosing, Limit: c.Limit, Until: c.Until, Note: c.Says, By: c.Caller.By(), Region: c.Caller.Region}
	if c.Until.IsZero() {
		e.Kind = KindOpening
		return e, !held.IsZero()
	}
	return e, c.Until.After(now) && c.Until.After(held.Until)
}

// Closed returns how the limit is closed after an entry that is a closing or an opening.
func (e *Entry) Closed() Closed {
	if e.Kind != KindClosing {
		return Closed{}
	}
	return Closed{Since: e.ID.Time(), Until: e.Until, Says: e.Note, By: e.By}
}

// Close refuses the decision where one of its limits is closed and enforced, at clock by the
// caller. It names the one that is closed the longest. The request would not be granted
// earlier than the windows allow.
func (d *Decision) Close(clock time.Time) {
	for _, s := range d.Limits {
		if s.Closed.IsZero() || s.DryRun || d.Reason == LimitClosed && !s.Closed.Until.After(d.Closed().Until) {
			continue
		}
		d.Reason, d.Limit = LimitClosed, s.Name
	}
	if d.Reason != LimitClosed {
		return
	}
	if until := d.Closed().Until; until.After(d.RetryAt) {
		d.RetryAt = until
	}
	d.RetryAfter = d.RetryAt.Sub(clock)
}

// Closed returns how the decision's Limit is closed; zero where it is not.
func (d Decision) Closed() Closed {
	for _, s := range d.Limits {
		if s.Name == d.Limit {
			return s.Closed
		}
	}
	return Closed{}
}

// maxClosed is how long a limit may be closed at once.
const maxClosed = 32 * 24 * time.Hour

// maxSays is the length of the longest reason of a closing, in bytes.
const maxSays = 2000

// validate returns what is wrong with a closing of a limit of c.
func (k Closing) validate(c *Credential, usage Usage) error {
	now := usage.Now
	switch {
	case c.Index(k.Limit) < 0:
		return c.unknownLimit(k.Limit)
	case len(k.Says) > maxSays:
		return fmt.Errorf("the reason has %d bytes, at most %d are allowed", len(k.Says), maxSays)
	case k.Until.IsZero():
		return nil
	case !k.Until.After(now):
		return fmt.Errorf("%s has passed: nothing is closed", k.Until.UTC().Format(time.RFC3339))
	case k.Until.After(now.Add(maxClosed)):
		return fmt.Errorf("a limit is closed for 32 days at most, until %s", now.Add(maxClosed).UTC().Format(time.RFC3339))
	}
	return nil
}
