package plan

import (
	"testing"
	"time"

	"quotad/quota"
)

// A day of a nightly backfill that takes all it can get, and of trending, on one credential:
// what each job gets without a share, with backfill capped, and with trending's part kept.
func TestDayOfBackfillAndTrending(t *testing.T) {
	const day = 24 * time.Hour
	trends := hourly(t, 8) // 32 units an hour, 768 a day
	backfill := hourly(t, 50)
	backfill.Name = "backfill" // 200 units an hour, 4,800 a day
	for _, row := range []struct {
		name              string
		share             quota.Limit
		trending, refills int // passes; of 184 and 1,150 in the 23 slots
	}{
		{"without a share", quota.Limit{}, 71, 439},
		{"backfill capped", quota.Limit{Name: "cap", Units: 1_200, Window: quota.Sliding(day), Jobs: []string{"backfill"}}, 184, 300},
		{"trending's part kept", quota.Limit{Name: "others", Units: 1_200, Window: quota.Sliding(day), ExceptJobs: []string{"trending"}}, 184, 300},
		{"a cap that is too large", quota.Limit{Name: "cap", Units: 1_600, Window: quota.Sliding(day), Jobs: []string{"backfill"}}, 110, 400},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := dailyOf(2_040, 0)
			if row.share.Name != "" {
				c.Limits = append(c.Limits, row.share)
			}
			p := simulate(day, []*quota.Credential{c}, trends, backfill)
			for i, want := range []int{row.trending, row.refills} {
				got := p.Jobs[i]
				t.Logf("%-9s %4d passes, %4d turns lost, %5d units", got.Job, got.Passes, got.Skipped, got.Spent["daily"])
				if got.Passes != want {
					t.Errorf("%s: got %d passes, want %d", got.Job, got.Passes, want)
				}
			}
		})
	}
}
