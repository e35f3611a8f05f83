package jobs

import (
	"testing"
	"time"

	"quotad/quota"
)

func TestWhatTheGateSays(t *testing.T) {
	day := quota.Limit{Name: "daily", Units: 1000, Reserve: 100, Window: quota.Sliding(24 * time.Hour)}
	tomorrow := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	spent := quota.LimitState{Limit: quota.Limit{Name: "hourly", Units: 50, Window: quota.Sliding(time.Hour)}, Used: 50}
	for _, row := range []struct {
		name       string
		units      quota.Units
		useReserve bool
		state      quota.LimitState
		want       string
	}{
		{"nothing is left", 1, false, quota.LimitState{Limit: day, Used: 900}, `a pass expects 1 unit, limit "daily" has 0`},
		{"some is left of the reserve", 80, true, quota.LimitState{Limit: day, Used: 960}, `a pass expects 80 units, limit "daily" has 40`},
		{"much is asked", 4000, false, quota.LimitState{Limit: day}, `a pass expects 4,000 units, limit "daily" has 900`},
		{"it counts as spent", 4, false, quota.LimitState{Limit: day, CatchingUp: tomorrow},
			`a pass expects 4 units, limit "daily" counts as spent until its log is as long as its window`},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := quota.Decision{Reason: quota.LimitExceeded, Units: row.units, Limit: "daily", RetryAt: tomorrow, Limits: []quota.LimitState{spent, row.state}}
			got := refusal(d, row.useReserve, false)
			if got.reason != Unaffordable || got.detail != row.want || !got.retryAt.Equal(tomorrow) {
				t.Errorf("got %+v, want unaffordable, %q, until tomorrow", *got, row.want)
			}
		})
	}
}
