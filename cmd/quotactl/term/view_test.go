package term

//ci:norace

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// at is the instant from which every text is seen.
var at = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

func screen(width int) View {
	return View{Now: at, Zone: time.UTC, Width: width}
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                              "1s",
		time.Millisecond:               "1s",
		59 * time.Second:               "59s",
		time.Minute:                    "1m",
		90 * time.Second:               "1m 30s",
		3*time.Hour + 12*time.Minute:   "3h 12m",
		24 * time.Hour:                 "24h",
		48*time.Hour - time.Second:     "47h 59m",
		48 * time.Hour:                 "2d",
		50*time.Hour + 59*time.Minute:  "2d 2h",
		365*24*time.Hour + time.Second: "365d",
	} {
		if got := Brief(d); got != want {
			t.Errorf("brief(%v): got %q, want %q", d, got, want)
		}
	}
}

// Whoever comes back at the time that was shown must not come too early.
func TestWhenRoundsUp(t *testing.T) {
	v := screen(80)
	losAngeles, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	west := v
	west.Zone = losAngeles
	for _, row := range []struct {
		name string
		v    View
		t    time.Time
		want string
	}{
		{"a millisecond ahead", v, at.Add(time.Millisecond), "in 1s, at 09:26:54 UTC"},
		{"whole seconds ahead", v, at.Add(2 * time.Second), "in 2s, at 09:26:55 UTC"},
		{"a little more", v, at.Add(2*time.Second + 1), "in 3s, at 09:26:56 UTC"},
		{"now", v, at, "just now, at 09:26:53 UTC"},
		{"just over", v, at.Add(-time.Millisecond), "just now, at 09:26:52 UTC"},
		{"past", v, at.Add(-90 * time.Minute), "1h 30m ago, at 07:56:53 UTC"},
		{"tomorrow", v, at.Add(24 * time.Hour), "in 24h, at Sun 09:26:53 UTC"},
		{"next week", v, at.Add(7 * 24 * time.Hour), "in 7d, at 2026-03-21 09:26:53 UTC"},
		{"another zone", west, at.Add(time.Minute), "in 1m, at 02:27:53"},
		{"another zone's day", west, at.Add(22 * time.Hour), "in 22h, at Sun 00:26:53"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := row.v.When(row.t); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestProseWraps(t *testing.T) {
	v := screen(20)
	var b strings.Builder
	v.Prose(&b, 4, Plain, "some words, then /a/path/that/is/longer/than/the/screen, and ünïcödé words")
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "    ") {
			t.Errorf("not indented: %q", line)
		}
		if utf8.RuneCountInString(line) > 20 && strings.Count(strings.TrimSpace(line), " ") > 0 {
			t.Errorf("too long: %q", line)
		}
	}
}

func TestCallersAreNamed(t *testing.T) {
	v := screen(80)
	v.users = map[string]string{"1000": "alice"}
	for by, want := range map[string]string{
		"@1000": "@alice", "@0": "@root", "@4294967294": "@4294967294", "@": "@", "": "", "trending": "trending", "1000": "1000", "a\x1b[31m": "a?[31m",
	} {
		if got := v.Caller(by); got != want {
			t.Errorf("%q is written %q, want %q", by, got, want)
		}
	}
}
