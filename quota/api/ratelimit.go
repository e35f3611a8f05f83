package api

import (
	"fmt"
	"strings"
	"time"
)

// RateLimit returns the fields RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers
// for an answer: the limits that can refuse, to a caller with or without the reserve. They are
// empty if there are none. A calendar window has no w: a day has 23 to 25 hours. A t that is not
// known is left out; that of the limit which refused is RetryAfterMs.
func (d *Decision) RateLimit(useReserve bool) (policy, state string) {
	var policies, states []string
	for i := range d.Limits {
		l := &d.Limits[i]
		if l.Observes {
			continue
		}
		units, remaining := l.Units-l.Reserve, l.Remaining
		if useReserve {
			units, remaining = l.Units, l.withReserve()
		}
		policy, state := fmt.Sprintf("%q;q=%d", l.Name, digits(units)), fmt.Sprintf("%q;r=%d", l.Name, digits(remaining))
		if l.WindowMs != 0 {
			policy += fmt.Sprintf(";w=%d", Seconds(time.Duration(l.WindowMs)*time.Millisecond))
		}
		switch {
		case l.Name == d.Limit && d.RetryAfterMs > 0:
			state += fmt.Sprintf(";t=%d", Seconds(time.Duration(d.RetryAfterMs)*time.Millisecond))
		case d.Now != nil && l.NextUnitsAt != nil: // when some units return
			state += fmt.Sprintf(";t=%d", Seconds(l.NextUnitsAt.Sub(*d.Now)))
		}
		policies, states = append(policies, policy), append(states, state)
	}
	return strings.Join(policies, ", "), strings.Join(states, ", ")
}

// withReserve is what remains to a caller with the reserve.
func (l *Limit) withReserve() int64 {
	if l.Closed != nil {
		return 0
	}
	return max(0, l.Units-l.Used)
}

// digits bounds an integer of a structured field, which has at most 15 digits (RFC 9651 §3.3.1); quota.MaxUnits has 16.
func digits(n int64) int64 { return min(n, 999_999_999_999_999) }

// Seconds rounds up, to at least one, so that a caller who waits that long is not too early.
func Seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }
