package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotactl/wording"
)

func TestWatchOnTheScreen(t *testing.T) {
	w := watched{status: readStatus(t, "busy"), lost: errors.New(`cannot reach quotad at "/run/quotad.sock": connection refused`), since: at.Add(-8 * time.Second)}
	for _, width := range []int{40, 80} {
		checkScreen(t, fmt.Sprintf("watch-lost-%d", width), w.render(viewOf(width)), viewOf(width))
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
		{"it fits", "a\nb\n", 4, "a\x1b[K\nb\x1b[K\n"},
		{"just", "a\nb\nc\n", 4, "a\x1b[K\nb\x1b[K\nc\x1b[K\n"},
		{"it does not", "a\nb\nc\nd\n", 4, "a\x1b[K\nb\x1b[K\n(2 lines more)\x1b[K\n"},
		{"two rows", "a\nb\n", 2, "(2 lines more)\x1b[K\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, want := draw(row.text, wording.View{Lines: row.height}), "\x1b[?7l\x1b[H"+row.want+"\x1b[J\x1b[?7h"
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if rows := strings.Count(got, "\n") + 1; rows > row.height {
				t.Errorf("%d rows on a screen of %d", rows, row.height)
			}
		})
	}
}
