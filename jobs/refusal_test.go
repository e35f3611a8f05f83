package jobs

import (
	"testing"
	"time"

	"quotad/quota"
)

func TestWhatTheGateSays(t *testing.T) {
	day := quota.Limit{Name: "daily", Units: 1000, Reserve: 100, Window: quota.Sliding(24 * time.Hour)}
	tomorrow := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		name  string
		units quota.Units
		state quota.LimitState
		want  string
	}{
		{"some is left", 1, quota.LimitState{Limit: day, Used: 900}, `a pass expects 1 unit, limit "daily" has 0`},
		{"much is asked", 4000, quota.LimitState{Limit: day}, `a pass expects 4,000 units, limit "daily" has 900`},
		{"it counts as spent", 4, quota.LimitState{Limit: day, CatchingUp: tomorrow},
			`a pass expects 4 units, limit "daily" counts as spent until its log is as long as its window`},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := quota.Decision{Reason: quota.LimitExceeded, Units: row.units, Limit: "daily", RetryAt: tomorrow, Limits: []quota.LimitState{row.state}}
			got := refusal(d, false)
			if got.reason != Unaffordable || got.detail != row.want || !got.retryAt.Equal(tomorrow) {
				t.Errorf("got %+v, want unaffordable, %q, until tomorrow", *got, row.want)
			}
		})
	}
}
