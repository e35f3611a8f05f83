package api

import (
	"cmp"
	"time"

	"quotad/quota"
)

// ModeHeader is the field of an answer that has the mode of a grant, "outage", where the answer has RateLimit else.
const ModeHeader = "Quotad-Mode"

// DecisionOf returns how a decision is answered. useReserve says whether the reserve was part of the caller's budget.
func DecisionOf(d quota.Decision, useReserve bool) Decision {
	body := Decision{Granted: d.Granted(), Now: TimeOf(d.Now), Limits: make([]Limit, len(d.Limits))}
	for i, l := range d.Limits {
		body.Limits[i] = LimitOf(l)
	}
	if len(d.Limits) > 0 {
		body.Remaining = int64(d.Remaining())
	}
	if d.Granted() {
		body.GrantID, body.Units, body.Replayed = d.GrantID, int64(d.Units), d.Replayed
		if d.Outage {
			body.Mode = "outage"
		}
		body.WouldDeny = d.WouldDeny(useReserve)
		return body
	}
	p := ProblemOf(d)
	body.Status, body.Detail, body.Hint = p.Status, p.Detail, p.Hint
	body.Reason, body.Limit, body.Requested = string(d.Reason), d.Limit, int64(d.Units)
	if d.Denied() {
		body.RetryAfterMs, body.RetryAt = d.RetryAfter.Milliseconds(), TimeOf(d.RetryAt)
	}
	if d.Reason == quota.LimitClosed {
		body.UpstreamSays = d.State().Closed.Says
	}
	return body
}

// ProblemOf returns the problem that a refusal is.
func ProblemOf(d quota.Decision) *Problem {
	p := NewProblem(d.Reason, "%s", d.Detail)
	return p.WithHint(cmp.Or(d.Hint, p.Hint))
}

// LimitOf returns what every answer says of a limit.
func LimitOf(s quota.LimitState) Limit {
	return Limit{
		Name:        s.Name,
		Units:       int64(s.Units),
		Reserve:     int64(s.Reserve),
		Used:        int64(s.Used),
		Remaining:   int64(s.Remaining()),
		Window:      s.Window.String(),
		WindowMs:    s.Window.Length.Milliseconds(),
		Describe:    s.Describe(),
		NextUnitsAt: TimeOf(s.NextAt),
		NextUnits:   int64(s.NextUnits),
		Closed:      ClosedOf(s.Closed),
		Jobs:        s.Jobs,
		ExceptJobs:  s.ExceptJobs,
		Observes:    s.DryRun,
	}
}

// ClosedOf returns nil for a limit that is open.
func ClosedOf(c quota.Closed) *quota.Closed {
	if c.IsZero() {
		return nil
	}
	return &c
}

// TimeOf returns nil for no time.
func TimeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}
