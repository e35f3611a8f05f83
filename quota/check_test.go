package quota_test

import (
	"slices"
	"testing"
	"time"

	"quotad/quota"
)

// The log keeps an entry as long as any limit counts it, as long as Keep says, and for ten minutes.
func TestKeeps(t *testing.T) {
	for _, row := range []struct {
		window quota.Window
		keep   time.Duration
		want   time.Duration
	}{
		{quota.Sliding(time.Minute), 0, 10 * time.Minute},
		{quota.Sliding(time.Minute), 5 * time.Minute, 10 * time.Minute},
		{quota.Sliding(time.Minute), 7 * 24 * time.Hour, 7 * 24 * time.Hour},
		{quota.Sliding(24 * time.Hour), 0, 24 * time.Hour},
		{quota.Sliding(24 * time.Hour), time.Hour, 24 * time.Hour},
		{quota.Calendar(quota.Day, time.UTC), 0, 26 * time.Hour},
		{quota.Calendar(quota.Month, time.UTC), 0, 32 * 24 * time.Hour},
	} {
		c := youtube()
		c.Keep, c.Limits[0].Window = row.keep, row.window
		c.Limits = append(c.Limits, quota.Limit{Name: "minute", Units: 1, Window: quota.Sliding(time.Minute)})
		if got := c.Keeps(); got != row.want {
			t.Errorf("%s, keep %v: %v, want %v", row.window, row.keep, got, row.want)
		}
	}
}

// Terms are equal where two credentials decide alike, however they are written, and differ by each thing that decides.
func TestTerms(t *testing.T) {
	california := load(t, "America/Los_Angeles")
	terms := func(edit func(*quota.Credential)) string {
		c := &quota.Credential{
			Name: "youtube",
			Limits: []quota.Limit{
				{Name: "daily", Units: 1000, Reserve: 50, Window: quota.Calendar(quota.Day, california), Only: []string{"search", "videos"}},
				{Name: "cap", Units: 100, Window: quota.Sliding(time.Hour), Jobs: []string{"backfill", "remote/shop"}},
				{Name: "others", Units: 700, Window: quota.Anchored(time.Hour, nine), ExceptJobs: []string{"trending", "charts"}},
			},
			Operations: map[string]quota.Cost{"search": {Per: map[string]quota.Units{"daily": 100, "cap": 1}}, "videos": {Every: 1}},
		}
		edit(c)
		return c.Terms()
	}
	known := map[string]string{terms(func(*quota.Credential) {}): "nothing"}
	for _, row := range []struct {
		name string
		same bool
		edit func(*quota.Credential)
	}{
		{"its name, and what it keeps", true, func(c *quota.Credential) { c.Name, c.Keep = "other", 7*24*time.Hour }},
		{"the order of operations", true, func(c *quota.Credential) { c.Limits[0].Only = []string{"videos", "search"} }},
		{"the instant in a zone", true, func(c *quota.Credential) { c.Limits[2].Window.From = nine.In(california) }},
		{"units", false, func(c *quota.Credential) { c.Limits[0].Units++ }},
		{"reserve", false, func(c *quota.Credential) { c.Limits[0].Reserve++ }},
		{"a limit's name", false, func(c *quota.Credential) { c.Limits[2].Name = "rest" }},
		{"enforce", false, func(c *quota.Credential) { c.Limits[0].DryRun = true }},
		{"jobs as one", false, func(c *quota.Credential) { c.Limits[1].Jobs = []string{"backfill remote/shop"} }},
		{"no exception", false, func(c *quota.Credential) { c.Limits[2].ExceptJobs = nil }},
		{"a day in UTC", false, func(c *quota.Credential) { c.Limits[0].Window = quota.Calendar(quota.Day, time.UTC) }},
		{"a millisecond", false, func(c *quota.Credential) { c.Limits[1].Window.Length += time.Millisecond }},
		{"a later period", false, func(c *quota.Credential) { c.Limits[2].Window.From = nine.Add(time.Millisecond) }},
		{"a cost", false, func(c *quota.Credential) { c.Operations["videos"] = quota.Cost{Every: 2} }},
		{"a cost in a limit", false, func(c *quota.Credential) { c.Operations["search"].Per["cap"] = 2 }},
		{"the order of limits", false, func(c *quota.Credential) { slices.Reverse(c.Limits) }}, // a denial names the first of several
	} {
		got := terms(row.edit)
		other, taken := known[got]
		if taken != row.same || taken && other != "nothing" {
			t.Errorf("%s: the terms are those of %q: %v, want %v", row.name, other, taken, row.same)
		}
		if !taken {
			known[got] = row.name
		}
	}
}
