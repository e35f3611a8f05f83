package main

import (
	"testing"
	"time"

	"quotad/jobs"
	"quotad/quota/api"
)

// What passes took is the median and the most of those that ended well, less what was
// released, and what others spent meanwhile is not theirs.
func TestSuggestedExpects(t *testing.T) {
	nine := time.Date(2026, 11, 21, 9, 0, 0, 400_000, time.UTC)
	pass := func(after int, outcome jobs.Outcome) jobs.Pass {
		began := nine.Add(time.Duration(after) * time.Minute)
		return jobs.Pass{Region: "US", Outcome: outcome, Units: 1, StartedAt: began, EndedAt: began.Add(30 * time.Second)}
	}
	passes := passesOf([]jobs.Run{{Job: "trending", Passes: []jobs.Pass{pass(0, jobs.OK), pass(1, jobs.OK), pass(2, jobs.OK), pass(3, jobs.Failed)}}})
	zero := int64(0)
	grant := func(after time.Duration, by, operation string, count int64) {
		passes.add(api.Entry{Kind: "grant", By: by, Region: "US", Operation: operation, Count: count, At: nine.Truncate(time.Millisecond).Add(after)})
	}
	grant(0, "trending", "videos.list", 3)
	grant(time.Second, "trending", "videos.list", 1)
	grant(time.Second, "charts", "videos.list", 90)
	grant(time.Minute, "trending", "videos.list", 9)
	grant(time.Minute, "trending", "search.list", 1)
	grant(2*time.Minute, "trending", "videos.list", 2)
	grant(3*time.Minute, "trending", "videos.list", 50) // of the pass that failed
	passes.add(api.Entry{Kind: "grant", By: "trending", Region: "US", Operation: "videos.list", Count: 40, At: nine.Add(time.Second), SettledTo: &zero})
	want := "[jobs.trending] # the median of 3 passes\nexpects = { \"videos.list\" = 4 } # at most { \"search.list\" = 1, \"videos.list\" = 9 }\n"
	if got := expectsText(passes.suggestions()); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
