package api

import (
	"strconv"
	"time"
)

// A RateLimit is what the fields RateLimit and RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers say, limit by limit. The zero value says nothing.
type RateLimit struct{ policy, state []byte }

// Add says of a limit how many units it has and how many remain; in which window, unless
// that is 0, for a day has 23 to 25 hours and w one value; and when some come back, unless
// that is not known, 0.
func (r *RateLimit) Add(name string, units, remaining int64, window, reset time.Duration) {
	// An integer of a structured field has at most 15 digits (RFC 9651 §3.3.1);
	// quota.MaxUnits has 16.
	const most = 999_999_999_999_999
	if len(r.policy) == 0 {
		r.policy, r.state = make([]byte, 0, 128), make([]byte, 0, 128)
	} else {
		r.policy, r.state = append(r.policy, ", "...), append(r.state, ", "...)
	}
	r.policy = strconv.AppendInt(append(strconv.AppendQuote(r.policy, name), ";q="...), min(units, most), 10)
	if window != 0 {
		r.policy = strconv.AppendInt(append(r.policy, ";w="...), Seconds(window), 10)
	}
	r.state = strconv.AppendInt(append(strconv.AppendQuote(r.state, name), ";r="...), min(remaining, most), 10)
	if reset != 0 {
		r.state = strconv.AppendInt(append(r.state, ";t="...), Seconds(reset), 10)
	}
}

// Fields returns the values of RateLimit-Policy and of RateLimit; ok is false where no
// limit was added.
func (r *RateLimit) Fields() (policy, state string, ok bool) {
	return string(r.policy), string(r.state), len(r.policy) > 0
}

// Seconds rounds up, to at least one, so that whoever waits that long does not come too
// early.
func Seconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }
