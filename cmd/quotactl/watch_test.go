package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/quota/api"
)

func TestWatchOnTheScreen(t *testing.T) {
	ascii := viewOf(80)
	ascii.UTF8 = false
	for name, v := range map[string]term.View{"40": viewOf(40), "80": viewOf(80), "200": viewOf(200), "80-ascii": ascii} {
		for _, input := range []string{"busy", "exhausted", "outage", "lost"} {
			t.Run(input+"-"+name, func(t *testing.T) {
				got := renderWatch(someWatcher(t, input), v)
				compare(t, fmt.Sprintf("watch-%s-%s", input, name), got)
				checkPlain(t, got, v)
				if v.Width >= term.DefaultWidth {
					checkFits(t, got, v)
				}
			})
		}
	}
}

func someWatcher(t *testing.T, input string) *watcher {
	w := &watcher{}
	if input == "lost" {
		input = "busy"
		w.lost, w.since = errors.New(`cannot reach quotad at "/run/quotad.sock": connection refused`), at.Add(-8*time.Second)
	}
	w.status = readStatus(t, input)
	if input != "outage" {
		w.hourly = someDays()
	}
	return w
}

// someDays is the last day of both credentials.
func someDays() map[string]api.Usage {
	day := func(credential string, spent ...int64) api.Usage {
		u := api.Usage{Credential: credential, By: "hour", Since: at.Add(-24 * time.Hour), Until: at}
		for i, units := range spent {
			if units > 0 {
				began := at.Truncate(time.Hour).Add(time.Duration(i-len(spent)+1) * time.Hour)
				u.Shares = append(u.Shares, api.Share{Name: began.Format(time.RFC3339), Units: units, Limits: map[string]int64{"daily": units}})
			}
		}
		return u
	}
	return map[string]api.Usage{
		"youtube": day("youtube", 999, 100, 0, 0, 412, 300, 100, 1, 2, 50, 60, 70, 80, 90, 100, 200, 300, 412, 300, 200, 100, 0, 0, 820, 412),
		"maps":    day("maps", 12),
	}
}

// A drawing stands on every row from the top, and nothing of the one before stays.
func TestDrawing(t *testing.T) {
	for _, row := range []struct {
		name   string
		text   string
		height int
		want   string
	}{
		{"it fits", "a\nb\n", 3, "\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J"},
		{"just", "a\nb\nc\n", 3, "\x1b[Ha\x1b[K\r\nb\x1b[K\r\nc\x1b[K\x1b[J"},
		{"it does not", "a\nb\nc\nd\n", 3, "\x1b[Ha\x1b[K\r\nb\x1b[K\r\n(2 lines more)\x1b[K\x1b[J"},
		{"one row", "a\nb\n", 1, "\x1b[H(2 lines more)\x1b[K\x1b[J"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := term.Draw(row.text, row.height); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
			if rows := strings.Count(term.Draw(row.text, row.height), "\n") + 1; rows > row.height {
				t.Errorf("%d rows on a screen of %d", rows, row.height)
			}
		})
	}
}

// Twenty-four hours, each with its name below it, on both sides of the clock change.
func TestLastHours(t *testing.T) {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	u := api.Usage{Until: time.Date(2026, 3, 8, 18, 30, 0, 0, time.UTC)}
	for i := range 30 { // more than are shown
		began := u.Until.Truncate(time.Hour).Add(time.Duration(-i) * time.Hour)
		u.Shares = append(u.Shares, api.Share{Name: began.Format(time.RFC3339), Units: int64(30 - i)})
	}
	spent, most := lastHours(u)
	if most != 30 || spent[trailHours-1] != 30 || spent[0] != 7 {
		t.Errorf("got %v, at most %d", spent, most)
	}
	v := viewOf(80)
	v.Zone = newYork
	// Two o'clock is left out that night.
	want := "    18    00   06    12"
	if got := hourMarks(u.Until.Truncate(time.Hour).Add(-23*time.Hour), 1, v); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
