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
	Type             string   `json:"type"`
	Title            string   `json:"title"`
	Status           int      `json:"status"`
	Detail           string   `json:"detail"`
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
	RetryAfterMs     int64    `json:"retry_after_ms,omitempty"`
}

func problemOf(reason quota.Reason, detail string) problem {
	p := api.NewProblem(reason, "%s", detail)
	return problem{Type: p.Type, Title: p.Title, Status: p.Status, Detail: detail}
}

// deny answers what does not fit now with 429, and what never will with 422.
func (h *handler) deny(w http.ResponseWriter, d api.Decision) {
	if quota.Reason(d.Reason) == quota.CostExceedsLimit {
		addRateLimit(w.Header(), d, 0)
		write(w, problemOf(quota.CostExceedsLimit, "this request costs more than limit "+strconv.Quote(d.Limit)+" ever has"))
		return
	}
	wait := h.jittered(time.Duration(d.RetryAfterMs) * time.Millisecond)
	p := problemOf(quota.LimitExceeded, "limit "+strconv.Quote(d.Limit)+" has no room for this request now")
	p.ViolatedPolicies, p.RetryAfterMs = d.ViolatedPolicies, wait.Milliseconds()
	if len(p.ViolatedPolicies) == 0 {
		p.ViolatedPolicies = []string{d.Limit}
	}
	addRateLimit(w.Header(), d, wait)
	w.Header().Set("Retry-After", strconv.FormatInt(api.Seconds(wait), 10))
	write(w, p)
}

// refuse answers a request that was not decided.
func (h *handler) refuse(w http.ResponseWriter, reason quota.Reason, detail string) {
	p := problemOf(reason, detail)
	if p.Status == http.StatusServiceUnavailable {
		wait := h.jittered(time.Second)
		p.RetryAfterMs = wait.Milliseconds()
		w.Header().Set("Retry-After", strconv.FormatInt(api.Seconds(wait), 10))
	}
	write(w, p)
}

func write(w http.ResponseWriter, p problem) {
	body, _ := json.Marshal(p) // of strings and numbers: it does not fail
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n')) // an error means that the caller went away
}

// jittered lengthens a wait at random, by whole milliseconds: clients that were refused
// together do not return together, and none returns too early.
func (h *handler) jittered(wait time.Duration) time.Duration {
	longest := max(0, int64(float64(wait.Milliseconds())*h.Jitter))
	return wait + time.Duration(rand.Int64N(longest+1))*time.Millisecond
}

// addRateLimit adds the RateLimit fields of the limits that are enforced; wait is for how long
// the one that refused has no room.
func addRateLimit(h http.Header, d api.Decision, wait time.Duration) {
	var fields api.RateLimit
	for _, l := range d.Limits {
		if l.DryRun {
			continue
		}
		var reset time.Duration
		switch {
		case l.Name == d.Limit && wait > 0:
			reset = wait
		case d.Now != nil && l.NextUnitsAt != nil: // when some units come free
			reset = max(1, l.NextUnitsAt.Sub(*d.Now))
		}
		fields.Add(l.Name, l.Units, l.Remaining, time.Duration(l.WindowMs)*time.Millisecond, reset)
	}
	if policy, state, ok := fields.Fields(); ok { // added, not set: another handler may wrap this one
		h.Add("RateLimit-Policy", policy)
		h.Add("RateLimit", state)
	}
}
