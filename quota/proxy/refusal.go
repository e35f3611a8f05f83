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

// exhausted reports whether the budget is exhausted, for this caller at least.
func (r *refusal) exhausted() bool {
	return !r.pace && (r.decision.Denied() || r.decision.Reason == quota.RunCapExceeded)
}

// A quotad is what a refusal in another dialect says in addition, for clients that know quotad.
type quotad struct {
	Reason  quota.Reason `json:"reason"`
	Limit   string       `json:"limit,omitempty"`
	Detail  string       `json:"detail,omitempty"`
	Hint    string       `json:"hint,omitempty"`
	RetryAt time.Time    `json:"retry_at,omitzero"`
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
		server.WriteDecision(w, r.decision, r.useReserve, false)
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
	type item struct {
		Message string `json:"message"`
		Domain  string `json:"domain"`
		Reason  string `json:"reason"`
	}
	type envelope struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Errors  []item `json:"errors"`
	}
	one := item{Message: r.message(), Domain: "global", Reason: googleReasons[r.problem.Status]}
	status := r.problem.Status
	switch {
	case r.exhausted():
		status, one.Domain, one.Reason = http.StatusForbidden, "youtube.quota", "quotaExceeded"
	case r.pace:
		status, one.Domain, one.Reason = http.StatusTooManyRequests, "usageLimits", "rateLimitExceeded"
	case one.Reason == "":
		one.Reason = "backendError"
	}
	server.Write(w, status, googleJSON, struct {
		Error  envelope `json:"error"`
		Quotad quotad   `json:"quotad"`
	}{envelope{status, one.Message, []item{one}}, r.quotad()})
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

func (r *refusal) quotad() quotad {
	return quotad{
		Reason: r.problem.Reason, Limit: r.decision.Limit, Detail: r.problem.Detail, Hint: r.problem.Hint,
		RetryAt: r.decision.RetryAt.UTC(),
	}
}
