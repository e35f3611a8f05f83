package api

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
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
		if p := problemOf(a, ""); p.Status != a.status || p.Reason != a.reason {
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

// A decision is answered with all that it says of its limits, in UTC.
func TestDecisionOf(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.FixedZone("", 3600))
	utc, jobs, except := at.UTC(), []string{"a"}, []string{"b"}
	of := quota.LimitState{Used: 95, NextAt: at, NextUnits: 7, Closed: quota.Closed{Until: at, Says: "gone"}}
	of.Limit = quota.Limit{Name: "daily", Units: 100, Reserve: 10, Window: quota.Sliding(time.Hour), DryRun: true}
	of.Jobs, of.ExceptJobs = jobs, except
	want := Limit{Name: "daily", Units: 100, Reserve: 10, Used: 95, Window: "1h", WindowMs: 3_600_000, Observes: true,
		Describe: of.Describe(), NextUnitsAt: &utc, NextUnits: 7, Closed: &of.Closed, Jobs: jobs, ExceptJobs: except}
	if got := LimitOf(of); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	refused := quota.Decision{Reason: quota.LimitClosed, Limit: "daily", Units: 3, Limits: []quota.LimitState{of}}
	refused.RetryAt, refused.RetryAfter = at, 1500*time.Millisecond
	d := DecisionOf(refused, false)
	if d.Status != 429 || d.UpstreamSays != "gone" ||
		d.Requested != 3 || d.RetryAfterMs != 1500 || *d.RetryAt != utc {
		t.Errorf("got %+v", d)
	}
}

// People write an instant, or how long before or after now it is.
func TestParseInstant(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"90m": 90 * time.Minute, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "2026-11-21T10:00:00Z": time.Hour,
		"": 0, "0s": 0, "-1h": 0, "1d-2h": 0, "-1d": 0, "d": 0, "65536d": 0, "65535d2562047h": 0,
	} {
		at, err := ParseInstant(text, now, false)
		ago, err2 := ParseInstant(text, now, true)
		if (err != nil) != (want == 0) || (err2 != nil) != (want == 0) ||
			at != now.Add(want) || ago != now.Add(-want) && !strings.HasSuffix(text, "Z") {
			t.Errorf("%q: got %v, %v, and %v, %v, want %v", text, at, err, ago, err2, want)
		}
	}
}
