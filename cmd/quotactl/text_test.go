package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"quotad/cmd/quotactl/term"
	"quotad/quota"
	"quotad/quota/api"
)

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 123456: "123,456", -1234567: "-1,234,567",
		9007199254740991: "9,007,199,254,740,991",
	} {
		if got := quota.Thousands(n); got != want {
			t.Errorf("quota.Thousands(%d): got %q, want %q", n, got, want)
		}
	}
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
		if got := term.Brief(d); got != want {
			t.Errorf("brief(%v): got %q, want %q", d, got, want)
		}
	}
}

// Whoever comes back at the time that was shown must not come too early.
func TestWhenRoundsUp(t *testing.T) {
	v := viewOf(80)
	losAngeles, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	west := v
	west.Zone = losAngeles
	for _, row := range []struct {
		name string
		v    term.View
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

// A bar is exactly as wide as it should be, and free cells show exactly while
// ordinary callers may spend.
func TestBar(t *testing.T) {
	v := viewOf(80)
	v.UTF8 = false
	for _, row := range []struct {
		name           string
		units, reserve int64
		used           int64
		want           string
	}{
		{"empty", 100, 0, 0, ".........."},
		{"empty with a reserve", 100, 20, 0, "........=="},
		{"a little used", 10000, 0, 1, "#........."},
		{"half", 100, 20, 40, "####....=="},
		{"one unit left", 10000, 2000, 7999, "#######.=="},
		{"exhausted", 100, 20, 80, "########=="},
		{"the reserve begun", 100, 20, 90, "#########="},
		{"all gone", 100, 20, 100, "##########"},
		{"past the limit", 100, 20, 170, "##########"},
		{"a reserve of nearly all", 100, 99, 0, ".========="},
		{"the greatest amounts", 1<<53 - 1, 0, 1<<53 - 2, "#########."},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := api.Limit{Units: row.units, Reserve: row.reserve, Used: row.used, Remaining: max(0, row.units-row.reserve-row.used)}
			if got := barOf(l, 10, v); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestWindowText(t *testing.T) {
	for window, want := range map[string]string{
		"24h0m0s":                 "in any 24h",
		"1h30m0s":                 "in any 1h30m",
		"10s":                     "in any 10s",
		"1m30s":                   "in any 1m30s",
		"720h0m0s":                "in any 720h",
		"day America/Los_Angeles": "each day in America/Los_Angeles",
	} {
		if got := windowText(window); got != want {
			t.Errorf("windowText(%q): got %q, want %q", window, got, want)
		}
	}
}

func TestProseWraps(t *testing.T) {
	v := viewOf(20)
	var b strings.Builder
	v.Prose(&b, 4, term.Plain, "some words, then /a/path/that/is/longer/than/the/screen, and ünïcödé words")
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
