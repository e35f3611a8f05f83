package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"quotad/quota"
)

// Reasons beside quota's own, of requests that were not decided.
const (
	LedgerUnavailable quota.Reason = "ledger_unavailable" // 503: ask again later, with the same request id
	// Recovering is LedgerUnavailable while this host reads the log, or the hosts put back what it has lost.
	Recovering       quota.Reason = "recovering"
	NotFound         quota.Reason = "not_found" // no such path or resource
	MethodNotAllowed quota.Reason = "method_not_allowed"
	Conflict         quota.Reason = "conflict"       // the resource's state does not allow it now
	InternalError    quota.Reason = "internal_error" // a fault of the daemon's
	// Unauthorized: 401, a remote caller's request without a token that is known.
	Unauthorized quota.Reason = "unauthorized"
	// Cancelled: 408, the caller went away before the decision. The reason is for logs and metrics.
	Cancelled quota.Reason = "cancelled"
	// UpstreamUnreachable: 502 of a proxy, or 504 if it took too long.
	UpstreamUnreachable quota.Reason = "upstream_unreachable"
)

// ErrLedgerUnavailable is a Problem of reason LedgerUnavailable, or Recovering: the
// daemon answered, but could not decide.
var ErrLedgerUnavailable = errors.New("the ledger is unavailable")

// An answer is one row of the table that binds errors and reasons to statuses.
type answer struct {
	reason quota.Reason
	status int
	denial bool    // units are missing: for a client that is not an error
	errs   []error // of a handler, which the row answers
	hint   string  // the cure, unless the handler knows a better one
}

// answers is read by the server and, backwards, by the client. A reason and a status
// select their first row, an error its last: narrower errors follow wider ones.
var answers = [...]answer{
	{reason: quota.LimitExceeded, status: http.StatusTooManyRequests, denial: true},
	{reason: quota.LimitClosed, status: http.StatusTooManyRequests, denial: true,
		hint: "quotactl open opens a limit that is known to be open upstream"},
	{reason: quota.CostExceedsLimit, status: http.StatusUnprocessableEntity, denial: true},
	{reason: quota.BadRequest, status: http.StatusBadRequest},
	{reason: quota.BadRequest, status: http.StatusRequestEntityTooLarge},
	{reason: Unauthorized, status: http.StatusUnauthorized},
	{reason: quota.Forbidden, status: http.StatusForbidden},
	{reason: quota.RequestIDConflict, status: http.StatusConflict,
		hint: "an id names one upstream call with its arguments: take a new id for a new call"},
	{reason: Conflict, status: http.StatusConflict},
	{reason: NotFound, status: http.StatusNotFound},
	{reason: quota.UnknownCredential, status: http.StatusNotFound},
	{reason: quota.UnknownClients, status: http.StatusNotFound},
	{reason: quota.UnknownOperation, status: http.StatusNotFound},
	{reason: quota.UnknownGrant, status: http.StatusNotFound,
		hint: "a grant can be changed only while its debit is in the window"},
	{reason: MethodNotAllowed, status: http.StatusMethodNotAllowed},
	{reason: LedgerUnavailable, status: http.StatusServiceUnavailable, errs: []error{
		quota.ErrUnavailable, quota.ErrOutcomeUnknown, context.DeadlineExceeded,
	}},
	{reason: Recovering, status: http.StatusServiceUnavailable, errs: []error{quota.ErrLost, quota.ErrRecovering}},
	// Behind the errors of a ledger, which wrap why they gave up.
	{reason: Cancelled, status: http.StatusRequestTimeout, errs: []error{context.Canceled}},
	{reason: UpstreamUnreachable, status: http.StatusBadGateway},
	{reason: InternalError, status: http.StatusInternalServerError}, // the last row: also for everything that is not listed
}

func answerFor(reason quota.Reason) answer {
	return firstAnswer(func(a answer) bool { return a.reason == reason })
}

func answerOf(status int) answer {
	return firstAnswer(func(a answer) bool { return a.status == status })
}

func firstAnswer(is func(answer) bool) answer {
	if i := slices.IndexFunc(answers[:], is); i >= 0 {
		return answers[i]
	}
	return answers[len(answers)-1]
}

// answerTo returns the row of a handler's error.
func answerTo(err error) answer {
	for _, a := range slices.Backward(answers[:]) {
		if slices.ContainsFunc(a.errs, func(known error) bool { return errors.Is(err, known) }) {
			return a
		}
	}
	return answers[len(answers)-1]
}

// ProblemFrom returns an error as the caller sees it: the *Problem or the refusal that it wraps, or
// the problem that the table has for it.
func ProblemFrom(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var refused *quota.RefusedError
	if errors.As(err, &refused) {
		return ProblemOf(refused.Decision)
	}
	return problemOf(answerTo(err), err.Error())
}

// A Problem says why a request was not carried out: problem details as in RFC
// 9457. Handlers return it as their error, and so does the client.
type Problem struct {
	Status int          `json:"status"`
	Detail string       `json:"detail,omitempty"` // for people
	Reason quota.Reason `json:"reason"`           // for programs
	Hint   string       `json:"hint,omitempty"`   // the cure, if it is known

	body []byte // as a client read it
}

// NewProblem returns a problem of a reason, with the reason's status. A reason that is
// neither quota's nor this package's has the status 500.
func NewProblem(reason quota.Reason, format string, args ...any) *Problem {
	return problemOf(answerFor(reason), fmt.Sprintf(format, args...))
}

func problemOf(a answer, detail string) *Problem {
	return &Problem{Status: a.status, Detail: detail, Reason: a.reason, Hint: a.hint}
}

// WithStatus replaces the status of a problem.
func (p *Problem) WithStatus(status int) *Problem {
	p.Status = status
	return p
}

// WithHint replaces the hint of a problem.
func (p *Problem) WithHint(hint string) *Problem {
	p.Hint = hint
	return p
}

// Error returns the sentence for people; Reason is for programs.
func (p *Problem) Error() string { return cmp.Or(p.Detail, string(p.Reason)) }

// Is makes errors.Is find ErrLedgerUnavailable.
func (p *Problem) Is(target error) bool {
	return target == ErrLedgerUnavailable && (p.Reason == LedgerUnavailable || p.Reason == Recovering)
}
