package server

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// A decisionBody is a Decision as it is sent: what is not known is left out.
type decisionBody struct {
	api.Decision
	Remaining *int64 `json:"remaining,omitempty"` // hides Decision's
}

// writeDecision answers an acquire, settle or release. useReserve says which
// budget the caller was measured by.
func writeDecision(w http.ResponseWriter, d quota.Decision, useReserve bool) {
	body := bodyOf(d)
	if d.Granted() {
		body.GrantID, body.Units, body.Replayed = d.GrantID, int64(d.Units), d.Replayed
		if d.Outage {
			body.Mode = "outage"
		}
		writeJSON(w, http.StatusOK, body)
		return
	}
	problem := refusalOf(d)
	body.Type, body.Title, body.Status, body.Detail, body.Hint = problem.Type, problem.Title, problem.Status, problem.Detail, problem.Hint
	body.Reason, body.Limit, body.Requested = string(d.Reason), d.Limit, int64(d.Units)
	if d.Reason == quota.LimitExceeded {
		body.addRetry(d, useReserve)
		addRateLimit(w.Header(), d, useReserve)
	}
	write(w, problem.Status, typeProblem, body)
}

// refusalOf returns the problem that a refusal is.
func refusalOf(d quota.Decision) *api.Problem {
	p := api.NewProblem(d.Reason, "%s", d.Detail)
	if d.Hint != "" {
		p.Hint = d.Hint
	}
	return p
}

func bodyOf(d quota.Decision) decisionBody {
	body := decisionBody{Decision: api.Decision{Granted: d.Granted()}}
	if len(d.Limits) > 0 {
		remaining := int64(d.Remaining())
		body.Remaining, body.Limits = &remaining, limitsOf(d.Limits)
	}
	return body
}

func (b *decisionBody) addRetry(d quota.Decision, useReserve bool) {
	b.RetryAfterMs = d.RetryAfter.Milliseconds()
	b.RetryAt = timeOf(d.RetryAt)
	for _, l := range d.Limits {
		if l.Cost > spendable(l, useReserve) {
			b.ViolatedPolicies = append(b.ViolatedPolicies, l.Name)
		}
		if l.Name == d.Limit && !l.CatchingUp.IsZero() {
			b.Detail = "limit " + strconv.Quote(d.Limit) + " has a longer window than its log reaches back, and counts as spent until that is filled"
		}
	}
	if len(b.ViolatedPolicies) == 0 {
		b.ViolatedPolicies = []string{d.Limit}
	}
	if b.Detail == "" {
		b.Detail = "no room now for " + d.Units.Text() + " in limit " + strconv.Quote(d.Limit)
	}
}

// spendable is what is left of a limit for a caller who may, or may not, use
// the reserve.
func spendable(l quota.LimitState, useReserve bool) quota.Units {
	if !l.CatchingUp.IsZero() {
		return 0
	}
	return max(0, l.Budget(useReserve)-l.Used)
}

// addRateLimit writes the fields of draft-ietf-httpapi-ratelimit-headers, and
// Retry-After: all in whole seconds, rounded up.
func addRateLimit(h http.Header, d quota.Decision, useReserve bool) {
	retry := strconv.FormatInt(seconds(d.RetryAfter), 10)
	var policy, state strings.Builder
	for i, l := range d.Limits {
		if i > 0 {
			policy.WriteString(", ")
			state.WriteString(", ")
		}
		name := strconv.Quote(l.Name)
		policy.WriteString(name + ";q=" + headerInt(l.Budget(useReserve)))
		if !l.Window.IsCalendar() { // a day has 23 to 25 hours; w has one value
			policy.WriteString(";w=" + strconv.FormatInt(seconds(l.Window.Length), 10))
		}
		state.WriteString(name + ";r=" + headerInt(spendable(l, useReserve)))
		if l.Name == d.Limit {
			state.WriteString(";t=" + retry)
		}
	}
	h["Retry-After"] = []string{retry}
	if len(d.Limits) > 0 {
		h["RateLimit-Policy"] = []string{policy.String()}
		h["RateLimit"] = []string{state.String()}
	}
}

// headerInt writes an integer of a structured field, which has at most 15
// digits (RFC 9651 §3.3.1); MaxUnits has 16.
func headerInt(u quota.Units) string {
	return strconv.FormatInt(min(int64(u), 999_999_999_999_999), 10)
}

// seconds rounds up, so that whoever waits that long does not come too early.
func seconds(d time.Duration) int64 {
	return max(1, int64((d+time.Second-1)/time.Second))
}

func limitsOf(states []quota.LimitState) []api.Limit {
	limits := make([]api.Limit, len(states))
	for i, s := range states {
		limits[i] = api.Limit{
			Name:            s.Name,
			Units:           int64(s.Units),
			Reserve:         int64(s.Reserve),
			Used:            int64(s.Used),
			Remaining:       int64(s.Remaining()),
			Window:          s.Window.String(),
			NextUnitsAt:     timeOf(s.NextAt),
			NextUnits:       int64(s.NextUnits),
			CatchingUpUntil: timeOf(s.CatchingUp),
		}
	}
	return limits
}

// timeOf returns nil for no time.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// writeJSON answers with v. What cannot be encoded is a fault of ours.
func writeJSON(w http.ResponseWriter, status int, v any) {
	write(w, status, typeJSON, v)
}

func writeProblem(w http.ResponseWriter, p *api.Problem) {
	write(w, p.Status, typeProblem, p)
}

func write(w http.ResponseWriter, status int, contentType []string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "cannot encode the answer", http.StatusInternalServerError)
		return
	}
	w.Header()["Content-Type"] = contentType
	if status == http.StatusServiceUnavailable {
		w.Header()["Retry-After"] = retrySoon
	}
	w.WriteHeader(status)
	// An error here means that the caller went away; nobody is left to tell.
	w.Write(append(body, '\n'))
}
