package main

import (
	"strings"
	"testing"
	"time"

	"quotad/jobs"
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
