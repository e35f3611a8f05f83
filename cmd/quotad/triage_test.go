package main

import (
	"testing"
	"time"

	"quotad/jobs"
	"quotad/regions"
)

// A run under way is trouble when nothing but failures came of three passes; one that is over when
// any region failed.
func TestTriageOfRuns(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		name     string
		state    jobs.RunState
		outcomes []jobs.Outcome
		want     string // empty: nothing
	}{
		{"two failed", jobs.RunRunning, []jobs.Outcome{jobs.Failed, jobs.Timeout, jobs.Running}, ""},
		{"three failed", jobs.RunRunning, []jobs.Outcome{jobs.Failed, jobs.Timeout, jobs.Killed, jobs.Running}, "3 of 5 regions failed so far, none was ok: US, no such key"},
		{"one of four was served", jobs.RunRunning, []jobs.Outcome{jobs.Failed, jobs.Failed, jobs.OK, jobs.Failed}, ""},
		{"one of four was skipped", jobs.RunRunning, []jobs.Outcome{jobs.Skipped, jobs.Failed, jobs.Failed, jobs.Failed}, ""},
		{"it runs", jobs.RunRunning, []jobs.Outcome{jobs.Running, jobs.Running, jobs.Running}, ""},
		{"one failed, and it is over", jobs.RunFailed, []jobs.Outcome{jobs.Failed, jobs.OK}, "1 of 5 regions failed: US, no such key"},
		{"three failed, and it was stopped", jobs.RunFailed, []jobs.Outcome{jobs.Failed, jobs.Failed, jobs.Failed}, "3 of 5 regions failed: US, no such key"},
		{"it is done", jobs.RunDone, []jobs.Outcome{jobs.OK}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			run := &jobs.Run{ID: "06f3k9x2a7q4mzt", State: row.state, Ring: regions.Ring{"US", "GB", "DE", "FR", "IN"}, StartedAt: now.Add(-time.Hour)}
			for i, outcome := range row.outcomes {
				run.Passes = append(run.Passes, jobs.Pass{Region: run.Ring[i], Outcome: outcome, Said: "no such key"})
			}
			then, when := "began", run.StartedAt
			if row.state != jobs.RunRunning {
				run.EndedAt = now
				then, when = "ended", run.EndedAt
			}
			got := &triage{}
			jobTroubles(got, []jobs.Status{{Name: "fetch", Last: run}}, now)
			if row.want == "" {
				if len(got.Troubles) != 0 {
					t.Errorf("got %+v, want nothing", got.Troubles)
				}
				return
			}
			if len(got.Troubles) != 1 {
				t.Fatalf("got %+v, want that the job is failing", got.Troubles)
			}
			if one := got.Troubles[0]; got.parts[0] != "1 job is failing" || one.Of != "job fetch" || one.Says != row.want ||
				one.Then != then || !one.When.Equal(when) || one.Do != "quotactl runs show 06f3k9x2a7q4mzt" || !one.Grave {
				t.Errorf("got %q, %+v, want %q, and that it %s at %v", got.parts, one, row.want, then, when)
			}
		})
	}
}
