package metrics

import (
	"slices"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/slidinglog"
)

// A configuration with what can happen beside what cannot: a limit that is not enforced denies
// nothing, a closed operation is not granted offline, and open clients are not refused then.
func expected(backend string) *config.Config {
	window := quota.Sliding(time.Hour)
	c := &config.Config{
		Credentials: []*quota.Credential{{
			Name:       "api",
			Limits:     []quota.Limit{{Name: "daily", Units: 100, Window: window}, {Name: "trial", Units: 50, Window: window, DryRun: true}},
			Operations: map[string]quota.Cost{"list": {Every: 1}, "search": {Every: 10}},
		}},
		Outages: map[string]slidinglog.Policy{"api": {Open: map[string]bool{"list": true}, Units: 5}},
	}
	c.Ledger.Backend = backend
	return c
}

// What cannot happen has no series: one that stays at zero for ever is a promise of an alert
// that never fires.
func TestNoSeriesStaysAtZeroForEver(t *testing.T) {
	for _, row := range []struct {
		metric, label string
		backend       string
		want          []string
	}{
		{"quotad_decisions_total", "limit", config.OnRedis, []string{"", "daily"}},
		{"quotad_decisions_total", "reason", config.OnRedis, []string{
			"granted", "ledger_unavailable", "limit_closed", "limit_exceeded"}},
		{"quotad_would_deny_total", "limit", config.OnRedis, []string{"trial"}},
		{"quotad_outage_grants_total", "operation", config.OnRedis, []string{"list"}},
		{"quotad_outage_grants_total", "operation", config.Embedded, nil},
		{"quotad_client_outage_grants_total", "clients", config.OnRedis, []string{"open"}},
	} {
		m := New("test")
		m.Expect(expected(row.backend))
		m.ExpectClients([]*clientlimit.Clients{{Name: "open", OpenOnOutage: true}, {Name: "closed"}})
		if got := labelled(t, m, row.metric, row.label); !slices.Equal(got, row.want) {
			t.Errorf("%s with %s has %s %q, want %q", row.metric, row.backend, row.label, got, row.want)
		}
	}
}

// labelled returns the values that a label of a metric has, each once.
func labelled(t *testing.T, m *Metrics, name, label string) (values []string) {
	t.Helper()
	families, err := m.registry.Gather()
	must(t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, one := range family.GetMetric() {
			for _, pair := range one.GetLabel() {
				if pair.GetName() == label {
					values = append(values, pair.GetValue())
				}
			}
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// must fails a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
