package middleware

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// A problem is the body of a refusal (RFC 9457). It does not say who was refused.
type problem struct {
	*api.Problem
	RetryAfterMs int64 `json:"retry_after_ms,omitempty"`
}

// deny answers what does not fit now with 429, and what never will with 422.
func deny(w http.ResponseWriter, d api.Decision) {
	detail := "limit " + strconv.Quote(d.Limit) + " has no room for this request now"
	if quota.Reason(d.Reason) == quota.CostExceedsLimit {
		detail = "this request costs more than limit " + strconv.Quote(d.Limit) + " ever has"
	}
	wait := jittered(time.Duration(d.RetryAfterMs) * time.Millisecond)
	d.RetryAfterMs = wait.Milliseconds()
	addRateLimit(w.Header(), d)
	refuse(w, quota.Reason(d.Reason), detail, wait)
}

// refuse answers with a problem, and when to ask again if that helps.
func refuse(w http.ResponseWriter, reason quota.Reason, detail string, wait time.Duration) {
	p := problem{api.NewProblem(reason, "%s", detail), wait.Milliseconds()}
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(api.Seconds(wait), 10))
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p) // an error means that the caller went away
}

// jittered lengthens a wait by up to a tenth, at random: clients that were refused together do not return together, and
// none returns too early.
func jittered(wait time.Duration) time.Duration {
	return wait + time.Duration(rand.Int64N(wait.Milliseconds()/10+1))*time.Millisecond
}

// addRateLimit adds the RateLimit fields of the limits that are enforced, or says that the ledger was not asked.
func addRateLimit(h http.Header, d api.Decision) {
	if d.Mode != "" {
		h.Set(api.ModeHeader, d.Mode)
	}
	if policy, state := d.RateLimit(false); policy != "" { // added, not set: another handler may wrap this one
		h.Add("RateLimit-Policy", policy)
		h.Add("RateLimit", state)
	}
}
