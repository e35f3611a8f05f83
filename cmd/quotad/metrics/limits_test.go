package metrics

import (
	"math"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/upstream"
)

// The obvious alert, on nothing remaining, is of limits that deny: not of one that is not enforced.
func TestLimitsThatDenyNothingAreNotExhausted(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	day := quota.Calendar(quota.Day, time.UTC)
	service, err := quota.NewService(ledgertest.NewModel(clock.Now), []*quota.Credential{{
		Name: "api",
		Limits: []quota.Limit{
			{Name: "daily", Units: 100, Window: day},
			{Name: "others", Units: 80, Window: day, ExceptJobs: []string{"trending"}},
			{Name: "trial", Units: 50, Window: day, DryRun: true},
		},
		Operations: map[string]quota.Cost{"list": {Every: 1}},
	}}, time.Minute)
	must(t, err)
	m := New("test")
	m.WatchLimits(service, upstream.NewObserver(service, nil, nil))
	if d, err := service.Acquire(t.Context(), quota.Request{Credential: "api", Operation: "list", Count: 80}); err != nil || !d.Granted() {
		t.Fatalf("got %+v, %v", d, err)
	}
	got := gathered(t, m, "quotad_limit_remaining_units")
	for limit, want := range map[string]float64{"daily": 20, "others": 0, "trial": math.Inf(1)} {
		if got[limit] != want {
			t.Errorf("of %s %v are left, want %v", limit, got[limit], want)
		}
	}
}

// gathered returns the values of a metric by their limits.
func gathered(t *testing.T, m *Metrics, name string) map[string]float64 {
	t.Helper()
	families, err := m.registry.Gather()
	must(t, err)
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, one := range family.GetMetric() {
			for _, label := range one.GetLabel() {
				if label.GetName() == "limit" {
					values[label.GetValue()] = one.GetGauge().GetValue()
				}
			}
		}
	}
	return values
}
