package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotactl/term"
	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
)

func TestWatchOnTheScreen(t *testing.T) {
	for _, width := range []int{40, 80, 200} {
		for _, input := range []string{"busy", "exhausted", "outage", "hostile", "lost"} {
			v := viewOf(width)
			checkScreen(t, fmt.Sprintf("watch-%s-%d", input, width), renderWatch(someWatcher(t, input), v), v)
		}
	}
}

func someWatcher(t *testing.T, input string) *watcher {
	w := &watcher{render: renderGlance}
	if input == "lost" {
		input = "busy"
		w.lost, w.since = errors.New(`cannot reach quotad at "/run/quotad.sock": connection refused`), at.Add(-8*time.Second)
	}
	w.status = readStatus(t, input)
	return w
}

// A drawing stands on every row from the top, and nothing of the one before stays.
func TestDrawing(t *testing.T) {
	for _, row := range []struct {
		name   string
		text   string
		height int
		want   string
	}{
		{"it fits", "a\nb\n", 4, "a\x1b[K\nb\x1b[K\n"},
		{"just", "a\nb\nc\n", 4, "a\x1b[K\nb\x1b[K\nc\x1b[K\n"},
		{"it does not", "a\nb\nc\nd\n", 4, "a\x1b[K\nb\x1b[K\n(2 lines more)\x1b[K\n"},
		{"two rows", "a\nb\n", 2, "(2 lines more)\x1b[K\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, want := term.View{Lines: row.height}.Draw(row.text), "\x1b[?7l\x1b[H"+row.want+"\x1b[J\x1b[?7h"
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if rows := strings.Count(got, "\n") + 1; rows > row.height {
				t.Errorf("%d rows on a screen of %d", rows, row.height)
			}
		})
	}
}

// On a screen that cannot be scrolled, limits and jobs share the rows.
func TestWatchSharesTheScreen(t *testing.T) {
	for _, row := range []struct{ limits, jobs, lines, limitsShown, jobsShown int }{
		{13, 20, 24, 9, 8}, {2, 20, 24, 2, 15}, {20, 2, 24, 15, 2}, {3, 4, 24, 3, 4}, {13, 20, 80, 13, 20},
	} {
		w := &watcher{render: renderGlance}
		w.status.Triage.Says = "nothing needs attention"
		w.status.Credentials = []api.Credential{{Name: "api"}}
		for i := range row.limits {
			w.status.Credentials[0].Limits = append(w.status.Credentials[0].Limits, api.Limit{Name: fmt.Sprintf("limit%d", i), Units: 10, Remaining: 10})
		}
		for i := range row.jobs {
			var job jobsapi.Job
			job.Name = fmt.Sprintf("job%d", i)
			w.status.Jobs = append(w.status.Jobs, job)
		}
		v := viewOf(80)
		v.Lines, v.Drawn = row.lines, true
		text := renderWatch(w, v)
		if n := strings.Count(text, "\n"); n >= row.lines {
			t.Errorf("%+v: %d lines", row, n)
		}
		if limits, jobs := strings.Count(text, "\napi limit"), strings.Count(text, "\njob"); limits != row.limitsShown || jobs != row.jobsShown {
			t.Errorf("%+v: %d limits and %d jobs:\n%s", row, limits, jobs, text)
		}
	}
}
