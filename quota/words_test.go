package quota

import (
	"strings"
	"testing"
	"time"
)

func TestNearest(t *testing.T) {
	known := []string{"units", "reserve", "window", "only", "videos.list"}
	for unknown, want := range map[string]string{
		"Units": "units", "reseve": "reserve", "onlyy": "only", "windov": "window", "untis": "units", "vidios_lst": "videos.list",
		"oly": "only", "videos": "videos.list", "period": "", "": "",
	} {
		if got := Nearest(unknown, known); got != want {
			t.Errorf("nearest to %q is %q, want %q", unknown, got, want)
		}
	}
}

// A name is safe on a command line, in a path and in a log line.
func TestCheckName(t *testing.T) {
	longest := strings.Repeat("n", 64)
	for name, want := range map[string]struct{ isName, isOperation bool }{
		"daily": {true, true}, "US": {true, true}, "7-days_all": {true, true}, longest: {true, true},
		"videos.list": {false, true}, "POST:/v2/items": {false, true},
		"": {false, false}, longest + "n": {false, false}, "-all": {false, false}, "_all": {false, false}, "../state": {false, false},
		"/etc": {false, false}, "two words": {false, false}, "a\nb": {false, false}, "größe": {false, false},
	} {
		if CheckName(name) == nil != want.isName || CheckOperation(name) == nil != want.isOperation {
			t.Errorf("%q: got %v as a name, %v as an operation", name, CheckName(name), CheckOperation(name))
		}
	}
}

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

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 calls", 1: "1 call", -1: "-1 calls", 1000: "1,000 calls", -999: "-999 calls",
		-100_000: "-100,000 calls", int64(MaxUnits): "9,007,199,254,740,991 calls"} {
		if got := Count(n, "call", "calls"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
