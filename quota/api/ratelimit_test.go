package api

import (
	"testing"
	"time"

	"quotad/quota"
)

// The fields RateLimit-Policy and RateLimit name the limits that can refuse, as who asks may spend them, and
// round up what is to be waited.
func TestRateLimitFields(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	daily := Limit{Name: "daily", Units: 100, Reserve: 20, Used: 70, Remaining: 10, WindowMs: 86_400_000}
	next := now.Add(1500 * time.Millisecond)
	rolling := daily
	rolling.NextUnitsAt, rolling.WindowMs = &next, 1500
	calendar := Limit{Name: "month", Units: int64(quota.MaxUnits), Remaining: int64(quota.MaxUnits)}
	observer := Limit{Name: "trial", Units: 1, Used: 70, WindowMs: 60_000, Observes: true}
	closed := daily
	closed.Remaining, closed.Closed = 0, &quota.Closed{Until: next}
	for _, row := range []struct {
		name          string
		d             Decision
		useReserve    bool
		policy, state string
	}{
		{"none", Decision{}, false, "", ""},
		{"an ordinary caller", Decision{Limits: []Limit{daily}}, false, `"daily";q=80;w=86400`, `"daily";r=10`},
		{"with the reserve", Decision{Limits: []Limit{daily}}, true, `"daily";q=100;w=86400`, `"daily";r=30`},
		{"one that only observes", Decision{Limits: []Limit{observer, daily}}, false, `"daily";q=80;w=86400`, `"daily";r=10`},
		{"a calendar's, and more digits than there may be", Decision{Limits: []Limit{calendar}}, false, `"month";q=999999999999999`, `"month";r=999999999999999`},
		{"some units return", Decision{Now: &now, Limits: []Limit{rolling}}, false, `"daily";q=80;w=2`, `"daily";r=10;t=2`},
		{"some units return by now", Decision{Now: &next, Limits: []Limit{rolling}}, false,
			`"daily";q=80;w=2`, `"daily";r=10;t=1`},
		{"closed", Decision{Limits: []Limit{closed}}, true, `"daily";q=100;w=86400`, `"daily";r=0`},
		{"denied", Decision{Limit: "daily", RetryAfterMs: 59_001, Limits: []Limit{daily, calendar}}, false,
			`"daily";q=80;w=86400, "month";q=999999999999999`, `"daily";r=10;t=60, "month";r=999999999999999`},
		{"denied for a moment", Decision{Limit: "daily", RetryAfterMs: 1, Limits: []Limit{daily}}, false, `"daily";q=80;w=86400`, `"daily";r=10;t=1`},
	} {
		if policy, state := row.d.RateLimit(row.useReserve); policy != row.policy || state != row.state {
			t.Errorf("%s:\ngot  %s and %s\nwant %s and %s", row.name, policy, state, row.policy, row.state)
		}
	}
}
