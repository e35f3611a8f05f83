package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/regions"
)

// What a pass wrote is printed before its end, and that of the passes under way after it; what was
// written too fast is missing, and that is said.
func TestWaitPrintsInOrder(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	var stdout, stderr strings.Builder
	w := runWriter{cli: &cli{stdout: &stdout, stderr: &stderr}}
	us := jobs.Pass{Region: "US", Outcome: jobs.OK, StartedAt: at, EndedAt: at.Add(time.Second)}
	gb := jobs.Pass{Region: "GB", Outcome: jobs.Running, StartedAt: at}
	for _, p := range []jobs.Progress{
		{Output: []jobs.OutputLine{{Region: "US", Stream: "stdout", Text: "page 1"}}, Written: 1},
		{Run: jobs.Run{Passes: []jobs.Pass{us, gb}}, Written: 4, Output: []jobs.OutputLine{
			{Region: "GB", Stream: "stdout", Text: "page 1"}, {Region: "US", Stream: "stderr", Text: "slow\x1b[31m"}, {Region: "US", Stream: "stdout", Text: "page 2"}}},
		{Run: jobs.Run{Passes: []jobs.Pass{us, gb}}, Written: 9, Output: []jobs.OutputLine{{Region: "GB", Stream: "stdout", Text: "page 6"}}},
	} {
		if err := w.write(p); err != nil {
			t.Fatal(err)
		}
	}
	if want := "US: page 1\nUS: page 2\nUS  ok, 0 units, 1.00s\nGB: page 1\nGB: page 6\n"; stdout.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", stdout.String(), want)
	}
	if want := "US: slow?[31m\nquotactl: 4 lines are left out: they were written too fast\n"; stderr.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", stderr.String(), want)
	}
}

// Eight regions that fail alike show one traceback.
func TestOutputAlikeIsThereOnce(t *testing.T) {
	alike := []string{"Traceback", "KeyError: 'items'"}
	run := jobs.Run{Job: "fetch", ID: "a", State: jobs.RunFailed, StartedAt: at, Passes: []jobs.Pass{
		{Region: "US", Tail: alike}, {Region: "GB", Tail: []string{"fine"}}, {Region: "DE", Tail: alike}, {Region: "FR"}, {Region: "US", Attempt: 1, Tail: alike},
	}}
	_, got, _ := strings.Cut(runPage(run, run.Passes, true, viewOf(80)), "  output of ")
	if want := "US DE US (attempt 2)\n    Traceback\n    KeyError: 'items'\n  output of GB\n    fine\n"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// A script tells by the exit code of a call what it may do next.
func TestExitCodesOfRefusals(t *testing.T) {
	for reason, want := range map[quota.Reason]int{
		quota.LimitExceeded: exitDenied, quota.LimitClosed: exitDenied, quota.CostExceedsLimit: exitError,
		quota.UnknownCredential: exitNotFound, quota.UnknownOperation: exitNotFound, quota.UnknownGrant: exitNotFound,
		api.NotFound: exitNotFound, quota.BadRequest: exitUsage,
		api.LedgerUnavailable: exitError, quota.RequestIDConflict: exitError, quota.Forbidden: exitError,
	} {
		if got := exitCodeOf(reason); got != want {
			t.Errorf("%s is %d, want %d", reason, got, want)
		}
	}
}

// The exit code of run --wait says whether the budget, or something else, kept the run from its end.
func TestExitCodesOfRuns(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	for _, row := range []struct {
		name    string
		state   jobs.RunState
		reason  jobs.Reason
		outcome jobs.Outcome // of its only pass
		want    int
	}{
		{"done", jobs.RunDone, "", jobs.OK, exitOK},
		{"the budget is gone", jobs.RunStopped, jobs.BudgetGone, jobs.Exhausted, exitDenied},
		{"a pass does not fit", jobs.RunStopped, jobs.DoesNotFit, jobs.NotLaunched, exitDenied},
		{"a limit is closed", jobs.RunStopped, jobs.Closed, jobs.NotLaunched, exitDenied},
		{"an operator", jobs.RunStopped, jobs.Operator, jobs.Interrupted, exitError},
		{"the upstream refuses the key", jobs.RunStopped, jobs.UpstreamRefuses, jobs.Exhausted, exitError},
		{"a region failed before the budget was gone", jobs.RunStopped, jobs.BudgetGone, jobs.Failed, exitError},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := &cli{stdout: io.Discard, stderr: io.Discard}
			run := jobs.Run{ID: "a", Ring: regions.Ring{"US"}, State: row.state, Reason: row.reason, StartedAt: at, EndedAt: at,
				Passes: []jobs.Pass{{Region: "US", Outcome: row.outcome, StartedAt: at, EndedAt: at}}}
			if got := c.report(c.endOf(run)); got != row.want {
				t.Errorf("exit code %d, want %d", got, row.want)
			}
		})
	}
}
