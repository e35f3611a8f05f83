package api

import (
	"strconv"
	"time"
)

// RateLimit returns the fields RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers
// for an answer: the limits that can refuse, to a caller with or without the reserve. They are
// empty if there are none. A calendar window has no w: a day has 23 to 25 hours. A t that is not
// known is left out; that of the limit which refused is RetryAfterMs.
func (d *Decision) RateLimit(useReserve bool) (policy, state string) {
	policies, states := make([]byte, 0, 128), make([]byte, 0, 128)
	for i := range d.Limits {
		l := &d.Limits[i]
		if l.Observes {
			continue
		}
		units, remaining := l.Units-l.Reserve, l.Remaining
		if useReserve {
			units, remaining = l.Units, l.withReserve()
		}
		if len(policies) > 0 {
			policies, states = append(policies, ", "...), append(states, ", "...)
		}
		policies = appendParameter(append(strconv.AppendQuote(policies, l.Name), ";q="...), units)
		if l.WindowMs != 0 {
			policies = appendParameter(append(policies, ";w="...), Seconds(time.Duration(l.WindowMs)*time.Millisecond))
		}
		states = appendParameter(append(strconv.AppendQuote(states, l.Name), ";r="...), remaining)
		switch {
		case l.Name == d.Limit && d.RetryAfterMs > 0:
			states = appendParameter(append(states, ";t="...), Seconds(time.Duration(d.RetryAfterMs)*time.Millisecond))
		case d.Now != nil && l.NextUnitsAt != nil: // when some units return
			states = appendParameter(append(states, ";t="...), Seconds(l.NextUnitsAt.Sub(*d.Now)))
		}
	}
	return string(policies), string(states)
}

// withReserve is what remains to a caller with the reserve.
func (l *Limit) withReserve() int64 {
	if l.Closed != nil {
		return 0
	}
	return max(0, l.Units-l.Used)
}

// appendParameter appends an integer of a structured field, which has at most 15 digits (RFC 9651
// §3.3.1); quota.MaxUnits has 16.
func appendParameter(field []byte, n int64) []byte {
	return strconv.AppendInt(field, min(n, 999_999_999_999_999), 10)
}

// Seconds rounds up, to at least one, so that a caller who waits that long is not too early.
func Seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }
