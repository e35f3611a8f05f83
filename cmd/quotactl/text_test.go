package main

import (
	"strings"
	"testing"

	"quotad/quota"
	"quotad/quota/api"
)

// A bar is exactly as wide as it should be, and free cells show exactly while
// ordinary callers may spend.
func TestBar(t *testing.T) {
	drawn := strings.NewReplacer("#", "█", ".", "░", "=", "▒")
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
			if got := barOf(l, 10); got != drawn.Replace(row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestNoteOfAnAdjustment(t *testing.T) {
	daily := []api.Charge{{Limit: "daily"}}
	for want, e := range map[string]api.Entry{
		"book 500 in daily":              {Units: 500, Asked: 500},
		"book -535 of -100,000 in daily": {Units: -535, Asked: -100_000},
		"book 0 of -5 in daily":          {Asked: -5}, // nothing was used
	} {
		e.Kind, e.Charges = string(quota.KindAdjustment), daily
		if got := entryNote(e); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
