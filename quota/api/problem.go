package api

import (
	"errors"
	"fmt"
	"net/http"

	"quotad/quota"
)

// Reasons beside quota's own, of requests that were not decided.
const (
	LedgerUnavailable quota.Reason = "ledger_unavailable" // 503: ask again later, with the same request id
	NotFound          quota.Reason = "not_found"          // no such path or resource
	MethodNotAllowed  quota.Reason = "method_not_allowed"
	Conflict          quota.Reason = "conflict"       // the resource's state does not allow it now
	InternalError     quota.Reason = "internal_error" // a fault of the daemon's
	// TooManyConnections: 503, this connection is one too many, see Config.
	TooManyConnections quota.Reason = "too_many_connections"
)

// ErrLedgerUnavailable is a Problem of reason LedgerUnavailable: the daemon
// answered, but could not decide.
var ErrLedgerUnavailable = errors.New("the ledger is unavailable")

// An answer is one row of the table that binds reasons to statuses.
type answer struct {
	reason   quota.Reason
	status   int
	decision bool   // it decides a request, so a client takes it for a Decision
	kind     string // the problem's type; empty: about:blank
}

// answers is read forwards by the server (the first row of a reason) and
// backwards by the client (the first row of a status).
var answers = [...]answer{
	{quota.LimitExceeded, http.StatusTooManyRequests, true, quotaExceeded},
	{quota.CostExceedsLimit, http.StatusUnprocessableEntity, true, ""},
	{quota.BadRequest, http.StatusBadRequest, true, ""},
	{quota.BadRequest, http.StatusRequestEntityTooLarge, true, ""},
	{quota.Forbidden, http.StatusForbidden, true, ""},
	{quota.RequestIDConflict, http.StatusConflict, true, ""},
	{Conflict, http.StatusConflict, false, ""},
	{NotFound, http.StatusNotFound, false, ""},
	{quota.UnknownCredential, http.StatusNotFound, true, ""},
	{quota.UnknownOperation, http.StatusNotFound, true, ""},
	{quota.UnknownGrant, http.StatusNotFound, true, ""},
	{MethodNotAllowed, http.StatusMethodNotAllowed, false, ""},
	{LedgerUnavailable, http.StatusServiceUnavailable, false, ""},
	{TooManyConnections, http.StatusServiceUnavailable, false, ""},
	{InternalError, http.StatusInternalServerError, false, ""}, // the last: also stands for what is not listed
}

// quotaExceeded is registered by draft-ietf-httpapi-ratelimit-headers.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

func answerFor(reason quota.Reason) answer {
	for _, a := range answers {
		if a.reason == reason {
			return a
		}
	}
	return answers[len(answers)-1]
}

func answerOf(status int) answer {
	for _, a := range answers {
		if a.status == status {
			return a
		}
	}
	return answers[len(answers)-1]
}

// A Problem says why a request was not carried out: problem details as of RFC
// 9457. A handler returns one as its error; the client returns it as well.
type Problem struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitempty"` // for people
	Reason quota.Reason `json:"reason"`           // for programs
	Hint   string       `json:"hint,omitempty"`   // the cure, where it is known
}

// NewProblem returns the problem of that reason, with the status the reason
// stands for. A reason that is not among quota's and this package's gives 500.
func NewProblem(reason quota.Reason, format string, args ...any) *Problem {
	return problemOf(answerFor(reason), fmt.Sprintf(format, args...))
}

func problemOf(a answer, detail string) *Problem {
	p := &Problem{Type: "about:blank", Title: http.StatusText(a.status), Status: a.status, Detail: detail, Reason: a.reason}
	if a.kind != "" {
		p.Type, p.Title = a.kind, "Quota exceeded"
	}
	return p
}

func (p *Problem) Error() string {
	if p.Detail == "" {
		return string(p.Reason)
	}
	return string(p.Reason) + ": " + p.Detail
}

// Is tells errors.Is that a problem of reason LedgerUnavailable is ErrLedgerUnavailable.
func (p *Problem) Is(target error) bool {
	return target == ErrLedgerUnavailable && p.Reason == LedgerUnavailable
}
