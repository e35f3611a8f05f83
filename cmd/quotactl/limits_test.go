package main

import (
	"testing"
	"time"

	"quotad/quota/api"
)

// A spending is units by how many hours ago they were spent, to the full hour.
type spending map[int]int64

// usage is the day's spending as the daemon tells it at a quarter past ten.
func (s spending) usage() api.Usage {
	u := api.Usage{Credential: "youtube", By: "hour", Until: quarterPast}
	for ago := 24; ago >= 0; ago-- {
		if units := s[ago]; units > 0 {
			began := quarterPast.Truncate(time.Hour).Add(-time.Duration(ago) * time.Hour)
			u.Shares = append(u.Shares, api.Share{Name: began.Format(time.RFC3339), Units: units, Limits: map[string]int64{"daily": units}})
		}
	}
	return u
}

var quarterPast = time.Date(2026, 3, 14, 10, 15, 0, 0, time.UTC)

func evenly(perHour int64) spending {
	s := spending{24: perHour * 3 / 4, 0: perHour / 4}
	for ago := 1; ago < 24; ago++ {
		s[ago] = perHour
	}
	return s
}

func TestPaces(t *testing.T) {
	midnight := time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		name     string
		spent    spending
		window   string
		used     int64
		perHour  int64
		goneIn   time.Duration // give or take a step; 0: never
		lasts    bool
		unpaced  bool
		inPart   bool
		nextUnit *time.Time
	}{
		{name: "nothing of late", spent: spending{5: 9_000}, window: "24h0m0s", used: 9_000, unpaced: true},
		{name: "evenly, and it may go on", spent: evenly(390), window: "24h0m0s", used: 9_360, perHour: 390, lasts: true},
		// 500 are left, 300 an hour are spent, and nothing comes back before the
		// morning's 9,000 do.
		{name: "a burst this morning", spent: spending{3: 8_625, 1: 300, 0: 75}, window: "24h0m0s", used: 9_000, perHour: 300, goneIn: 100 * time.Minute},
		// The burst leaves within the hour and makes room for all that follows.
		{name: "a burst yesterday", spent: spending{24: 8_700, 1: 300, 0: 75}, window: "24h0m0s", used: 9_075, perHour: 300, lasts: true},
		{name: "faster than yesterday", spent: spending{1: 800, 0: 200}, window: "24h0m0s", used: 1_000, perHour: 800, goneIn: 10*time.Hour + 37*time.Minute},
		{name: "a trickle", spent: spending{1: 1}, window: "24h0m0s", used: 1, perHour: 1, lasts: true},
		{name: "all gone", spent: spending{1: 9_500}, window: "24h0m0s", used: 9_500, perHour: 7_600},
		{name: "part of the log", spent: spending{1: 800, 0: 200}, window: "24h0m0s", used: 9_000, perHour: 800, inPart: true},
		{name: "a short window", spent: spending{1: 800, 0: 200}, window: "30m0s", used: 200, unpaced: true},
		{name: "a day that ends before", spent: spending{1: 400, 0: 100}, window: "day UTC", used: 4_000, perHour: 400, lasts: true, nextUnit: &midnight},
		{name: "a day that does not", spent: spending{1: 400, 0: 100}, window: "day UTC", used: 4_500, perHour: 400, goneIn: 12*time.Hour + 30*time.Minute, nextUnit: &midnight},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := api.Limit{Name: "daily", Units: 10_000, Reserve: 500, Used: row.used, Remaining: 9_500 - row.used, Window: row.window, NextUnitsAt: row.nextUnit}
			u := row.spent.usage()
			u.Partial = row.inPart
			p, known := pacesOf([]api.Limit{l}, u)["daily"]
			if known == row.unpaced || p.perHour != row.perHour || p.lasts != row.lasts {
				t.Fatalf("got %+v, want %d an hour, and that it lasts: %v", p, row.perHour, row.lasts)
			}
			if p.gone.IsZero() != (row.goneIn == 0) {
				t.Fatalf("gone at %v, want in %v", p.gone, row.goneIn)
			}
			if late := p.gone.Sub(quarterPast) - row.goneIn; row.goneIn > 0 && late.Abs() > goneStep {
				t.Errorf("gone in %v, want %v", p.gone.Sub(quarterPast), row.goneIn)
			}
		})
	}
}

// Amounts and windows at the end of what there may be.
func TestPaceOfTheGreatestAmounts(t *testing.T) {
	const most = 1<<53 - 1
	for _, window := range []string{"8784h0m0s", "month UTC"} {
		l := api.Limit{Name: "daily", Units: most, Used: 1, Remaining: most - 1, Window: window}
		if p := pacesOf([]api.Limit{l}, spending{1: 1}.usage())["daily"]; !p.lasts {
			t.Errorf("%s: got %+v, want that it lasts", window, p)
		}
	}
}
