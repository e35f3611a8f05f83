package quota_test

import (
	"testing"
	"time"

	"quotad/quota"
)

// A denial says what is left of the limit that denied, not of another one that has less.
func TestWhatADenialSays(t *testing.T) {
	day := quota.Limit{Name: "daily", Units: 1000, Reserve: 100, Window: quota.Sliding(24 * time.Hour)}
	spent := quota.LimitState{Limit: quota.Limit{Name: "hourly", Units: 50, Window: quota.Sliding(time.Hour)}, Used: 50}
	tomorrow := nine.Add(24 * time.Hour)
	for _, row := range []struct {
		reason     quota.Reason
		useReserve bool
		state      quota.LimitState
		want       string
	}{
		{quota.LimitExceeded, false, quota.LimitState{Limit: day, Cost: 1, Used: 900}, "no room for 1 unit in limit daily, which has 0 left"},
		{quota.LimitExceeded, true, quota.LimitState{Limit: day, Cost: 80, Used: 960}, "no room for 80 units in limit daily, which has 40 left"},
		{quota.LimitExceeded, false, quota.LimitState{Limit: day, Cost: 4000}, "no room for 4,000 units in limit daily, which has 900 left"},
		{quota.LimitClosed, false, quota.LimitState{Limit: day, Cost: 4, Closed: quota.Closed{Until: tomorrow, Says: "Quota exceeded"}}, "limit daily is closed: Quota exceeded"},
		{"", false, quota.LimitState{Limit: day, Cost: 1}, ""},
	} {
		d := quota.Decision{Reason: row.reason, Limit: "daily", Limits: []quota.LimitState{spent, row.state}}
		if got := d.Detailed(row.useReserve).Detail; got != row.want {
			t.Errorf("got  %q\nwant %q", got, row.want)
		}
	}
}
