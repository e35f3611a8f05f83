package quota

import (
	"testing"
	"time"
)

func TestBrief(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "250ms": 250 * time.Millisecond, "1m30s": 90 * time.Second, "30m": 30 * time.Minute,
		"1h30m": 90 * time.Minute, "24h": 24 * time.Hour, "36h": 36 * time.Hour, "2d": 48 * time.Hour, "7d": 7 * 24 * time.Hour, "49h": 49 * time.Hour,
	} {
		if got := Brief(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestDescribe(t *testing.T) {
	angeles, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	for want, l := range map[string]Limit{
		"in any 24h":                      {Window: Sliding(24 * time.Hour)},
		"each day in America/Los_Angeles": {Window: Calendar(Day, angeles)},
		"in any 7d, for a, b and c, by trending, not enforced":         {Window: Sliding(7 * 24 * time.Hour), Only: []string{"c", "b", "a"}, Jobs: []string{"trending"}, DryRun: true},
		"in any 1m, for search.list, by all but backfill and trending": {Window: Sliding(time.Minute), Only: []string{"search.list"}, ExceptJobs: []string{"trending", "backfill"}},
	} {
		if got := l.Describe(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}
