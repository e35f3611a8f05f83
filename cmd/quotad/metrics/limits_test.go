package metrics

import (
	"context"
	"math"
	"testing"
	"time"

	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/upstream"
)

// The obvious alerts, on nothing remaining and on nothing remaining soon, are of limits that
// deny: not of one that is not enforced.
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
	forecast := []plan.Forecast{{Credential: "api", Limit: "daily"}, {Credential: "api", Limit: "others", GoneAt: clock.Now()}}
	m.WatchLimits(service, upstream.NewObserver(service, nil, nil), func(context.Context) ([]plan.Forecast, error) { return forecast, nil })
	if d, err := service.Acquire(t.Context(), quota.Request{Credential: "api", Operation: "list", Count: 80}); err != nil || !d.Granted() {
		t.Fatalf("got %+v, %v", d, err)
	}
	never := math.Inf(1)
	for _, row := range []struct {
		name       string
		at         time.Time
		remaining  map[string]float64
		exhaustion map[string]float64
		goneAt     time.Time // of daily, as it is foreseen
	}{
		{"before it is gone", time.Date(2026, 11, 21, 19, 0, 0, 0, time.UTC),
			map[string]float64{"daily": 20, "others": 0, "trial": never}, map[string]float64{"daily": 1800, "others": 0, "trial": never}, time.Date(2026, 11, 21, 19, 30, 0, 0, time.UTC)},
		{"no end is foreseen", time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC),
			map[string]float64{"daily": 20, "others": 0, "trial": never}, map[string]float64{"daily": never, "others": 0, "trial": never}, time.Time{}},
	} {
		clock.Set(row.at)
		forecast[0].GoneAt = row.goneAt
		for name, want := range map[string]map[string]float64{"quotad_limit_remaining_units": row.remaining, "quotad_limit_exhaustion_seconds": row.exhaustion} {
			got := gathered(t, m, name)
			for limit, want := range want {
				if got[limit] != want {
					t.Errorf("%s: %s of %s is %v, want %v", row.name, name, limit, got[limit], want)
				}
			}
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
