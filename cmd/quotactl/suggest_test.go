package main

import (
	"testing"
	"time"

	"quotad/jobs"
)

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
