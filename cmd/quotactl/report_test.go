package main

import (
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// A report counts by each window that a limit may have, and by none that it cannot read.
func TestWindowsOfAReport(t *testing.T) {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]quota.Window{
		`"1h30m"`: quota.Sliding(90 * time.Minute), `{ calendar = "day", timezone = "America/Los_Angeles" }`: quota.Calendar(quota.Day, zone),
		`{ every = "7d", from = "2026-01-01T11:30:15.005Z" }`: quota.Anchored(7*24*time.Hour, time.Date(2026, 1, 1, 11, 30, 15, 5e6, time.UTC)),
	} {
		if got := windowText(want); got != text {
			t.Errorf("a configuration has it as %s, want %s", got, text)
		}
		if got, err := windowOf(api.Limit{Window: want.String(), WindowMs: want.Length.Milliseconds()}); err != nil || !got.Same(want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	for _, text := range []string{"day Nowhere/Else", "24h from noon", "often from 2026-01-01T00:00:00Z"} {
		if _, err := newReportOf(api.Credential{Limits: []api.Limit{{Name: "daily", Window: text}}}); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
