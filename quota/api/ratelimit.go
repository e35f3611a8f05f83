package api

import (
	"strconv"
	"time"
)

// A RateLimit builds the fields RateLimit and RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers, limit by limit. The zero value is empty.
type RateLimit struct{ policy, state []byte }

// Add adds a limit: how many units it has, and how many remain. A window of 0 is left out, as
// that of a calendar day, which has 23 to 25 hours while w has one value. A reset of 0, when some
// units return, is not known.
func (r *RateLimit) Add(name string, units, remaining int64, window, reset time.Duration) {
	// An integer of a structured field has at most 15 digits (RFC 9651 §3.3.1);
	// quota.MaxUnits has 16.
	const maxInteger = 999_999_999_999_999
	if len(r.policy) == 0 {
		r.policy, r.state = make([]byte, 0, 128), make([]byte, 0, 128)
	} else {
		r.policy, r.state = append(r.policy, ", "...), append(r.state, ", "...)
	}
	r.policy = strconv.AppendInt(append(strconv.AppendQuote(r.policy, name), ";q="...), min(units, maxInteger), 10)
	if window != 0 {
		r.policy = strconv.AppendInt(append(r.policy, ";w="...), Seconds(window), 10)
	}
	r.state = strconv.AppendInt(append(strconv.AppendQuote(r.state, name), ";r="...), min(remaining, maxInteger), 10)
	if reset != 0 {
		r.state = strconv.AppendInt(append(r.state, ";t="...), Seconds(reset), 10)
	}
}

// Fields returns the values of RateLimit-Policy and RateLimit; ok is false if there is no limit.
func (r *RateLimit) Fields() (policy, state string, ok bool) {
	return string(r.policy), string(r.state), len(r.policy) > 0
}

// Seconds rounds up, to at least one, so that a caller who waits that long is not too early.
func Seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }
