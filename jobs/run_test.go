package jobs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/regions"
)

func TestRunIDs(t *testing.T) {
	begin := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	var ids []string
	seen := make(map[string]bool)
	for i := range 1000 {
		id := newRunID(begin.Add(time.Duration(i) * 37 * time.Millisecond))
		if len(id) != 15 || strings.Trim(id, "0123456789abcdefghjkmnpqrstvwxyz") != "" || seen[id] {
			t.Fatalf("%q is not a new id of 15 characters", id)
		}
		must(t, quota.CheckName(id))
		seen[id] = true
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) {
		t.Error("ids do not sort by time")
	}
	if one, other := newRunID(begin), newRunID(begin); one == other {
		t.Errorf("two runs of one millisecond have one id, %q", one)
	}
}

func TestTail(t *testing.T) {
	var output runOutput
	if got, said := output.tail("US", 0); len(got) != 0 || said != "" {
		t.Errorf("got %q, %q of nothing", got, said)
	}
	output.add("US", Line{Text: "of the pass before", Stream: "stderr"})
	for i := range 25 {
		output.add("US", Line{Text: strings.Repeat("x", 20*i)})
		output.add("GB", Line{Text: "of another region", Stream: "stderr"})
	}
	got, said := output.tail("US", 1)
	if len(got) != 10 || len(got[0]) != 300 || len(got[9]) != 480 || said != "" { // 3,910 bytes with their newlines
		t.Errorf("got %q, %q, want the last 10 lines", got, said)
	}
	output.add("US", Line{Text: "no such key", Stream: "stderr"})
	output.add("US", Line{Text: " ", Stream: "stderr"})
	output.add("US", Line{Text: strings.Repeat("ö", 1000)})
	got, said = output.tail("US", 1)
	if last := got[len(got)-1]; len(last) > maxLineBytes+len("…") || !strings.HasSuffix(last, "ö…") || said != "no such key" {
		t.Errorf("got %q, %q, want the beginning of the line, marked as cut", last, said)
	}
}

// A run in which a region failed in the end is a failed one, however far it came.
func TestHowARunEnded(t *testing.T) {
	now := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	pass := func(region string, attempt int, o Outcome) Pass {
		return Pass{Region: regions.Region(region), Attempt: attempt, Outcome: o}
	}
	dry := &Stop{Reason: BudgetGone}
	for _, row := range []struct {
		name   string
		passes []Pass
		cause  error
		want   RunState
		failed int
	}{
		{"all went well", []Pass{pass("US", 0, OK), pass("GB", 0, OK)}, nil, RunDone, 0},
		{"all failed", []Pass{pass("US", 0, Failed), pass("GB", 0, Timeout)}, nil, RunFailed, 2},
		{"one was killed", []Pass{pass("US", 0, Killed), pass("GB", 0, OK)}, nil, RunFailed, 1},
		{"one came right when it was tried again", []Pass{pass("US", 0, Failed), pass("GB", 0, OK), pass("US", 1, OK)}, nil, RunDone, 0},
		{"one did not", []Pass{pass("US", 0, Failed), pass("GB", 0, OK), pass("US", 1, Failed)}, nil, RunFailed, 1},
		{"one was not tried again: the budget was gone", []Pass{pass("US", 0, Failed), pass("GB", 0, OK), pass("US", 1, NotLaunched)}, dry, RunFailed, 1},
		{"the budget was gone", []Pass{pass("US", 0, OK), pass("GB", 0, Exhausted)}, dry, RunStopped, 0},
		{"one failed, then the budget was gone", []Pass{pass("US", 0, Failed), pass("GB", 0, Exhausted)}, dry, RunFailed, 1},
		{"we ended it", []Pass{pass("US", 0, OK), pass("GB", 0, Interrupted)}, ErrOperator, RunInterrupted, 0},
		{"one failed, then we ended it", []Pass{pass("US", 0, Failed), pass("GB", 0, Interrupted)}, ErrOperator, RunFailed, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			run := Run{ID: "1", State: RunRunning, Ring: regions.Ring{"US", "GB"}, Passes: row.passes}
			state, why := run.ending(row.cause)
			run.end(now, state, why)
			if run.State != row.want || len(run.Failed()) != row.failed || !run.EndedAt.Equal(now) {
				t.Errorf("%s, %d failed, want %s, %d", run.State, len(run.Failed()), row.want, row.failed)
			}
			if run.good() != (row.want == RunDone) {
				t.Errorf("good: %v", run.good())
			}
		})
	}
}
