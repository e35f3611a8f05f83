package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"quotad/quota"
)

func TestAnswersAreReadBackAsTheyWereWritten(t *testing.T) {
	for _, a := range answers {
		if got := answerFor(a.reason); got.denial != a.denial {
			t.Errorf("%s: two rows disagree", a.reason)
		}
		if back := answerOf(a.status); back.status != a.status {
			t.Errorf("%d is read back as %d", a.status, back.status)
		}
		if p := problemOf(a, ""); p.Status != a.status || p.Title == "" || p.Type == "" || p.Reason != a.reason {
			t.Errorf("%s: %+v", a.reason, p)
		}
	}
	if p := NewProblem("invented", "x"); p.Status != 500 || p.Reason != InternalError {
		t.Errorf("an unknown reason is written as %+v", p)
	}
}

// What keeps a ledger from deciding is 503, by the narrowest reason, and a client knows it by each of them. A
// caller who went away, and a fault, say nothing of the ledger.
func TestErrorsOfALedger(t *testing.T) {
	for _, row := range []struct {
		err    error
		reason quota.Reason
		status int
	}{
		{quota.ErrUnavailable, LedgerUnavailable, 503},
		{quota.ErrOutcomeUnknown, LedgerUnavailable, 503},
		{quota.ErrUnusable, LedgerUnavailable, 503},
		{context.DeadlineExceeded, LedgerUnavailable, 503},
		{quota.ErrLost, Recovering, 503},
		{quota.ErrRecovering, Recovering, 503},
		{context.Canceled, Cancelled, 408},
		{fmt.Errorf("%w: %w", quota.ErrUnavailable, context.Canceled), Cancelled, 408},
		{errors.New("it broke"), InternalError, 500},
	} {
		p := ProblemFrom(fmt.Errorf("credential youtube: %w", row.err))
		if p.Reason != row.reason || p.Status != row.status || p.Detail != "credential youtube: "+row.err.Error() {
			t.Errorf("%v: got %+v, want %d %s", row.err, p, row.status, row.reason)
		}
		if errors.Is(p, ErrLedgerUnavailable) != (row.status == 503) {
			t.Errorf("%v: a client takes it for a ledger that does not decide: %v", row.err, !(row.status == 503))
		}
	}
}

// A refusal of the service is the same to a caller, wherever it was wrapped: with its cure.
func TestARefusalKeepsItsHint(t *testing.T) {
	refused := quota.Decision{Reason: quota.UnknownOperation, Detail: "no such operation", Hint: "list it"}
	p := ProblemFrom(fmt.Errorf("credential youtube: %w", &quota.RefusedError{Decision: refused}))
	if p.Reason != quota.UnknownOperation || p.Status != 404 || p.Detail != "no such operation" || p.Hint != "list it" {
		t.Errorf("got %+v", p)
	}
}

// A denial names the limits that it does not fit: none that only observes, and none with room in the reserve for who
// may use that.
func TestViolatedPolicies(t *testing.T) {
	limit := func(name string, reserve quota.Units, observes bool) quota.LimitState {
		l := quota.Limit{Name: name, Units: 100, Reserve: reserve, Window: quota.Sliding(time.Hour), DryRun: observes}
		return quota.LimitState{Limit: l, Used: 95, Cost: 10}
	}
	room := limit("room", 20, false)
	room.Used = 90
	limits := []quota.LimitState{limit("trial", 0, true), limit("daily", 0, false), room}
	d := quota.Decision{Reason: quota.LimitExceeded, Limit: "daily", Limits: limits}
	for useReserve, want := range map[bool][]string{false: {"daily", "room"}, true: {"daily"}} {
		if got := DecisionOf(d, useReserve).ViolatedPolicies; !slices.Equal(got, want) {
			t.Errorf("with the reserve %v: got %q, want %q", useReserve, got, want)
		}
	}
}
