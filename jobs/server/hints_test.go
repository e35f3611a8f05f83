package server

import (
	"testing"

	"quotad/jobs"
)

// A run is named by what a user has at hand: its job's name, or the id of one that
// cannot be ended here.
func TestHintsAboutRuns(t *testing.T) {
	running := jobs.Run{ID: "06f3k9x2a7q4mzt", Job: "trending", State: jobs.RunRunning}
	elsewhere, over := running, running
	elsewhere.Host = "web2"
	over.State = jobs.RunDone
	trending := "trending"
	for _, row := range []struct{ name, got, want string }{
		{"a job that never ran", jobHint(jobs.Status{Name: trending}), "trending is a job, which has not run yet"},
		{"a job that runs", jobHint(jobs.Status{Name: trending, Last: &running}), "trending is a job: its run under way is 06f3k9x2a7q4mzt"},
		{"a job that ran", jobHint(jobs.Status{Name: trending, Last: &over}), "trending is a job: its last run was 06f3k9x2a7q4mzt, and none is under way"},
		{"on another host", endHint(&elsewhere), "it is under way on web2: end it there"},
		{"over", endHint(&over), "it is over (done): quotactl runs 06f3k9x2a7q4mzt"},
	} {
		if row.got != row.want {
			t.Errorf("%s: got %q, want %q", row.name, row.got, row.want)
		}
	}
}
