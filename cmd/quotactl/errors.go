package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"quotad/cmd/quotactl/wording"
	"quotad/quota"
	"quotad/quota/api"
)

// The exit codes, part of the contract with scripts.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitUnreachable = 3  // no daemon answers
	exitNotFound    = 4  // the daemon does not know the name or the id
	exitDenied      = 75 // EX_TEMPFAIL: the budget is gone for now
)

// A failure is an error with the exit code it stands for and, where the cure is
// known, a hint.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func usageError(hint, format string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...), hint: hint}
}

// report prints an error for people and returns the exit code for scripts.
func (c *cli) report(err error) int {
	if err == nil {
		return exitOK
	}
	f, v := c.explain(err), wording.View{}
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }) // of joined errors, and of cobra
	said := []string{"error: " + strings.Join(lines, "; ")}
	if f.hint != "" {
		said = append(said, "hint: "+f.hint)
	}
	if os.Getenv(api.TokenEnv) != "" { // the last line that a pass writes is its cause
		slices.Reverse(said)
	}
	for _, line := range said {
		fmt.Fprintf(c.stderr, "quotactl: %s\n", v.Clean(line))
	}
	return f.code
}

// explain turns an error of the API client into a failure with its exit code and a hint.
// It leaves a failure as it is.
func (c *cli) explain(err error) *failure {
	if f := (*failure)(nil); errors.As(err, &f) {
		return f
	}
	var p *api.Problem
	switch {
	case !c.began: // cobra's own words
		return &failure{code: exitUsage, err: err, hint: "see quotactl help"}
	case errors.Is(err, api.ErrUnreachable):
		return &failure{code: exitUnreachable, err: err, hint: api.Hint(err)}
	case errors.Is(err, api.ErrLedgerUnavailable):
		return &failure{code: exitError, err: err, hint: "what is left cannot be known now: quotactl status shows the state of the ledger"}
	case errors.As(err, &p):
		return &failure{code: exitCodeOf(p.Reason), err: err, hint: cmp.Or(api.Hint(err), c.skewHint(err))}
	}
	return &failure{code: exitError, err: err, hint: c.skewHint(err)}
}

// inDoubt explains an error, and replaces the hint if the request may have been carried out
// although its answer was lost.
func (c *cli) inDoubt(err error, advice string) error {
	if !errors.Is(err, quota.ErrOutcomeUnknown) && !errors.Is(err, api.ErrLedgerUnavailable) {
		return err
	}
	f := c.explain(err)
	f.hint = advice
	return f
}

// exitCodeOf is the exit code that a reason stands for. A cost that can never fit is not
// "denied", because 75 means that a script can try again later.
func exitCodeOf(reason quota.Reason) int {
	switch reason {
	case quota.LimitExceeded, quota.LimitClosed:
		return exitDenied
	case quota.UnknownCredential, quota.UnknownClients, quota.UnknownOperation, quota.UnknownGrant, api.NotFound:
		return exitNotFound
	case quota.BadRequest:
		return exitUsage
	default:
		return exitError
	}
}

// skewHint is for errors that cannot happen if daemon and client have one version: the
// daemon does not know a route or a field of ours, or we cannot read its answer.
func (c *cli) skewHint(err error) string {
	var p *api.Problem
	if errors.As(err, &p) && !slices.Contains([]quota.Reason{api.NotFound, api.MethodNotAllowed, quota.BadRequest}, p.Reason) {
		return ""
	}
	var daemon struct{ Version string }
	own := api.BuildVersion()
	if c.client().Get(context.Background(), "/version", &daemon) != nil || daemon.Version == own {
		return ""
	}
	return fmt.Sprintf("quotactl is %s, quotad %s: after an upgrade, restart quotad", own, daemon.Version)
}

// refusal turns a decision that is not a grant into a failure.
func (c *cli) refusal(d api.Decision) error {
	f := &failure{code: exitCodeOf(quota.Reason(d.Reason)), err: errors.New(cmp.Or(d.Detail, d.Reason)), hint: d.Hint}
	if f.code == exitDenied {
		f.err = fmt.Errorf("denied: %w", f.err)
	}
	if d.RetryAt != nil {
		f.hint = strings.TrimSuffix("this request fits "+c.view().When(*d.RetryAt)+"; "+d.Hint, "; ")
	}
	return f
}
