package main

import (
	"testing"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/api"
)

// A report counts by each window that a limit may have, and by none that it cannot read.
func TestWindowsOfAReport(t *testing.T) {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]quota.Window{
		`"1h30m"`: quota.Sliding(90 * time.Minute), `{ calendar = "day", timezone = "America/Los_Angeles" }`: quota.Calendar(quota.Day, zone),
		`{ every = "7d", from = "2026-01-01T11:30:15.005Z" }`: quota.Anchored(7*24*time.Hour, time.Date(2026, 1, 1, 11, 30, 15, 5e6, time.UTC)),
	} {
		if got := windowText(want); got != text {
			t.Errorf("a configuration has it as %s, want %s", got, text)
		}
		if got, err := windowOf(api.Limit{Window: want.String(), WindowMs: want.Length.Milliseconds()}); err != nil || got.String() != want.String() {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	for _, text := range []string{"day Nowhere/Else", "24h from noon", "often from 2026-01-01T00:00:00Z"} {
		if _, err := newReportOf(api.Credential{Limits: []api.Limit{{Name: "daily", Window: text}}}); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// What passes made is the median and the most of those that ended well.
func TestSuggestedExpects(t *testing.T) {
	nine := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	pass := func(after int, outcome jobs.Outcome, made jobs.Made) jobs.Pass {
		return jobs.Pass{Region: "US", Outcome: outcome, Made: made, StartedAt: nine.Add(time.Duration(after) * time.Minute)}
	}
	runs := []jobs.Run{{Job: "trending", Passes: []jobs.Pass{
		pass(0, jobs.OK, jobs.Made{"videos.list": 4}), pass(1, jobs.OK, jobs.Made{"videos.list": 9, "search.list": 1}),
		pass(2, jobs.OK, jobs.Made{"videos.list": 2}), pass(3, jobs.Failed, jobs.Made{"videos.list": 50}),
		pass(4, jobs.OK, nil), pass(-1, jobs.OK, jobs.Made{"videos.list": 70}),
	}}}
	want := "[jobs.trending.expects] # the median of 3 passes\n# \"search.list\" = 0 # at most 1\n\"videos.list\" = 4 # at most 9\n"
	if got := expectsText([]suggestion{suggestionOf(jobs.Status{Name: "trending"}, runs, nine)}); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
