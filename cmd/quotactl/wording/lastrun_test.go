package wording

import (
	"testing"
	"time"

	"quotad/jobs"
)

// How long ago a run was counts from its end; how long one runs, from its beginning.
func TestLastRun(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	began, ended := now.Add(-10*time.Minute), now.Add(-20*time.Second)
	for want, run := range map[string]*jobs.Run{
		"none":                nil,
		"running for 10m":     {State: jobs.RunRunning, StartedAt: began},
		"done 20s ago":        {State: jobs.RunDone, StartedAt: began, EndedAt: ended},
		"interrupted 20s ago": {State: jobs.RunInterrupted, StartedAt: began, EndedAt: ended},
	} {
		if got := LastRun(run, View{Now: now}).Text; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
