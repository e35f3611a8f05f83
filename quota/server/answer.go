package server

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// WriteDecision answers an acquire, settle or release. useReserve says whether the reserve was
// part of the caller's budget, and headers whether a grant has the RateLimit fields, as a denial.
func WriteDecision(w http.ResponseWriter, d quota.Decision, useReserve, headers bool) {
	body := decisionOf(d, useReserve)
	if d.Denied() && d.RetryAfter > 0 {
		w.Header()["Retry-After"] = []string{strconv.FormatInt(api.Seconds(d.RetryAfter), 10)}
	}
	if d.Denied() || d.Granted() && headers {
		if policy, state := body.RateLimit(useReserve); policy != "" {
			w.Header()["RateLimit-Policy"], w.Header()["RateLimit"] = []string{policy}, []string{state}
		}
	}
	switch {
	case d.Granted() && d.Units == 0:
		Write(w, http.StatusOK, typeJSON, freeGrant{decision: body})
	case d.Granted():
		Write(w, http.StatusOK, typeJSON, body)
	default:
		Write(w, body.Status, typeProblem, body)
	}
}

// A decision is an api.Decision that says what remains only if that is known.
type decision struct {
	api.Decision
	Remaining *int64 `json:"remaining,omitempty"`
}

// A freeGrant says that it costs nothing.
type freeGrant struct {
	decision
	Units int64 `json:"units"`
}

func decisionOf(d quota.Decision, useReserve bool) decision {
	body := decision{Decision: api.Decision{Granted: d.Granted(), Now: timeOf(d.Now), Limits: each(d.Limits, limitOf)}}
	if len(d.Limits) > 0 {
		body.Remaining = new(int64(d.Remaining()))
	}
	if d.Err != nil {
		body.refuse(api.ProblemFrom(d.Err))
		return body
	}
	if d.Granted() {
		body.GrantID, body.Count, body.Units, body.Replayed = d.GrantID, int64(d.Count), int64(d.Units), d.Replayed
		if d.Outage {
			body.Mode = "outage"
		}
		body.WouldDeny = d.WouldDeny(useReserve)
		return body
	}
	body.refuse(ProblemOf(d))
	body.Reason, body.Limit, body.Requested = string(d.Reason), d.Limit, int64(d.Units)
	if d.Denied() {
		body.RetryAfterMs, body.RetryAt, body.ViolatedPolicies = d.RetryAfter.Milliseconds(), timeOf(d.RetryAt), violated(d, useReserve)
	}
	if d.Reason == quota.LimitClosed {
		body.UpstreamSays = d.Closed().Says
	}
	return body
}

func (body *decision) refuse(p *api.Problem) {
	body.Granted, body.Reason = false, string(p.Reason)
	body.Type, body.Title, body.Status, body.Detail, body.Hint = p.Type, p.Title, p.Status, p.Detail, p.Hint
}

// ProblemOf returns the problem that a refusal is.
func ProblemOf(d quota.Decision) *api.Problem {
	p := api.NewProblem(d.Reason, "%s", d.Detail)
	return p.WithHint(cmp.Or(d.Hint, p.Hint))
}

// refusalOf returns why there is no grant, as an error: err, or the problem that a refusal is.
func refusalOf(d quota.Decision, err error) error {
	if err == nil && !d.Granted() {
		return ProblemOf(d)
	}
	return err
}

// violated names the limits that a denied request does not fit.
func violated(d quota.Decision, useReserve bool) []string {
	var names []string
	for _, l := range d.Limits {
		if !l.DryRun && l.Cost > l.Spendable(useReserve) {
			names = append(names, l.Name)
		}
	}
	if names == nil {
		return []string{d.Limit}
	}
	return names
}

// each converts a list.
func each[From, To any](list []From, convert func(From) To) []To {
	converted := make([]To, len(list))
	for i, one := range list {
		converted[i] = convert(one)
	}
	return converted
}

// closedOf returns nil for a limit that is open.
func closedOf(c quota.Closed) *quota.Closed {
	if c.IsZero() {
		return nil
	}
	return &c
}

// limitOf returns what every answer says of a limit.
func limitOf(s quota.LimitState) api.Limit {
	return api.Limit{
		Name:            s.Name,
		Units:           int64(s.Total()),
		Reserve:         int64(s.Reserve),
		Used:            int64(s.Used),
		Remaining:       int64(s.Remaining()),
		Window:          s.Window.String(),
		WindowMs:        s.Window.Length.Milliseconds(),
		Describe:        s.Describe(),
		NextUnitsAt:     timeOf(s.NextAt),
		NextUnits:       int64(s.NextUnits),
		CatchingUpUntil: timeOf(s.CatchingUp),
		Closed:          closedOf(s.Closed),
		Lent:            int64(s.LentUnits()),
		LentUntil:       timeOf(s.LentUntil()),
		Loans:           s.Lent,
		Jobs:            s.Jobs,
		ExceptJobs:      s.ExceptJobs,
		DryRun:          s.DryRun,
	}
}

// timeOf returns nil for no time.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// WriteProblem answers with a problem.
func WriteProblem(w http.ResponseWriter, p *api.Problem) { Write(w, p.Status, typeProblem, p) }

// Write answers with the JSON of v. A 503 gets a Retry-After, unless it has one. Not to be able to
// encode v is a fault of the daemon.
func Write(w http.ResponseWriter, status int, contentType []string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "cannot encode the answer", http.StatusInternalServerError)
		return
	}
	w.Header()["Content-Type"] = contentType
	if status == http.StatusServiceUnavailable && w.Header()["Retry-After"] == nil {
		w.Header()["Retry-After"] = retrySoon
	}
	w.WriteHeader(status)
	w.Write(append(body, '\n')) // an error means that the caller has gone
}
