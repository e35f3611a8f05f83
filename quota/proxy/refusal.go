package proxy

import (
	"net/http"
	"strconv"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
)

// A Dialect is how an upstream words a refusal, so that its clients understand ours.
type Dialect string

// The dialects.
const (
	Google  Dialect = "google"
	Problem Dialect = "problem" // RFC 9457, as our own API
)

// A refusal is why a request is not answered by the upstream.
type refusal struct {
	problem    *api.Problem
	decision   quota.Decision // of a denial
	pace       bool           // the caller can wait for it
	useReserve bool
}

// refusalOf returns the refusal of a pass that a decision is.
func refusalOf(d quota.Decision, b quota.Bearer) *refusal {
	answer := b.Answer(d)
	return &refusal{problem: api.ProblemOf(answer), decision: answer, pace: b.CanWait(d), useReserve: b.UseReserve}
}

// A googleError is a refusal in Google's envelope. Quotad is for clients that know quotad.
type googleError struct {
	Error struct {
		Code    int          `json:"code"`
		Message string       `json:"message"`
		Errors  []googleItem `json:"errors"`
	} `json:"error"`
	Quotad struct {
		Reason  quota.Reason `json:"reason"`
		Limit   string       `json:"limit,omitempty"`
		Detail  string       `json:"detail,omitempty"`
		Hint    string       `json:"hint,omitempty"`
		RetryAt time.Time    `json:"retry_at,omitzero"`
	} `json:"quotad"`
}

type googleItem struct {
	Message string `json:"message"`
	Domain  string `json:"domain"`
	Reason  string `json:"reason"`
}

var googleJSON = []string{"application/json; charset=UTF-8"}

// write answers a request in a dialect.
func (r *refusal) write(w http.ResponseWriter, dialect Dialect) {
	if r.decision.Denied() && r.decision.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(api.Seconds(r.decision.RetryAfter), 10))
	}
	switch {
	case dialect == Google:
		r.writeGoogle(w)
	case r.decision.Reason != "":
		server.WriteDecision(w, r.decision, r.useReserve)
	default:
		server.WriteProblem(w, r.problem)
	}
}

// googleReasons are Google's words for a status.
var googleReasons = map[int]string{
	http.StatusBadRequest: "badRequest", http.StatusForbidden: "forbidden", http.StatusNotFound: "notFound",
	http.StatusConflict: "conflict", http.StatusUnprocessableEntity: "badRequest",
}

// writeGoogle says that the quota is exceeded as YouTube does, whose clients do not repeat
// such a request; or that a rate is, which they repeat.
func (r *refusal) writeGoogle(w http.ResponseWriter) {
	var e googleError
	one := googleItem{Message: r.message(), Domain: "global", Reason: googleReasons[r.problem.Status]}
	status := r.problem.Status
	switch {
	case r.decision.Denied() && !r.pace: // the budget is exhausted, for this caller at least
		status, one.Domain, one.Reason = http.StatusForbidden, "youtube.quota", "quotaExceeded"
	case r.pace:
		status, one.Domain, one.Reason = http.StatusTooManyRequests, "usageLimits", "rateLimitExceeded"
	case one.Reason == "":
		one.Reason = "backendError"
	}
	e.Error.Code, e.Error.Message, e.Error.Errors = status, one.Message, []googleItem{one}
	e.Quotad.Reason, e.Quotad.Detail, e.Quotad.Hint = r.problem.Reason, r.problem.Detail, r.problem.Hint
	e.Quotad.Limit, e.Quotad.RetryAt = r.decision.Limit, r.decision.RetryAt.UTC()
	server.Write(w, status, googleJSON, e)
}

// message is the refusal in words, as a client prints them.
func (r *refusal) message() string {
	text := "quotad: " + r.problem.Detail
	if at := r.decision.RetryAt; !at.IsZero() {
		text += "; it fits at " + at.UTC().Format(time.RFC3339)
	}
	if r.problem.Hint != "" {
		text += "; " + r.problem.Hint
	}
	return text
}
