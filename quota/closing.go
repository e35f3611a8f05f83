package quota

import "time"

// Closed says that nothing is granted from a limit before a time. Its zero value means that
// the limit is open.
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

// Close refuses the decision where one of its limits is closed and enforced, at clock by the
// caller. It names the one that is closed the longest. The request would not be granted
// earlier than the windows allow.
func (d *Decision) Close(clock time.Time) {
	for _, s := range d.Limits {
		if s.Closed.IsZero() || s.DryRun || d.Reason == LimitClosed && !s.Closed.Until.After(d.State().Closed.Until) {
			continue
		}
		d.Reason, d.Limit = LimitClosed, s.Name
	}
	if d.Reason != LimitClosed {
		return
	}
	if until := d.State().Closed.Until; until.After(d.RetryAt) {
		d.RetryAt = until
	}
	d.RetryAfter = d.RetryAt.Sub(clock)
}
