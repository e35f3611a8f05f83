package server

import (
	"testing"

	"quotad/jobs"
)

// A run may be named by what a user has at hand: its job's name.
func TestHintsAboutRuns(t *testing.T) {
	const id = "06f3k9x2a7q4mzt"
	for _, row := range []struct {
		name string
		last *jobs.Run
		want string
	}{
		{"a job that never ran", nil, "trending is a job, which has not run yet"},
		{"a job that runs", &jobs.Run{ID: id, State: jobs.RunRunning}, "trending is a job: its run under way is " + id},
		{"a job that ran", &jobs.Run{ID: id, State: jobs.RunDone}, "trending is a job: its last run was " + id + ", and none is under way"},
	} {
		if got := jobHint("trending", row.last); got != row.want {
			t.Errorf("%s: got %q, want %q", row.name, got, row.want)
		}
	}
}
