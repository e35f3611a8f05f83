package metrics

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
)

// recording returns what has recorded some events about the expected credential.
func recording(t *testing.T, events ...any) *Metrics {
	t.Helper()
	c := expected(config.OnRedis)
	m := New("test")
	var err error
	m.service, err = quota.NewService(ledgertest.NewModel(time.Now), c.Credentials, time.Minute)
	must(t, err)
	m.Expect(c)
	for _, event := range events {
		m.Record(event)
	}
	return m
}

// counted returns the values of a metric that are not 0, by the values of its labels in the order of their names.
func counted(t *testing.T, m *Metrics, name string) map[string]float64 {
	t.Helper()
	families, err := m.registry.Gather()
	must(t, err)
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, one := range family.GetMetric() {
			var labels []string
			for _, pair := range one.GetLabel() {
				labels = append(labels, pair.GetValue())
			}
			value := one.GetCounter().GetValue() + one.GetGauge().GetValue() + float64(one.GetHistogram().GetSampleCount())
			if value != 0 {
				values[strings.Join(labels, " ")] = value
			}
		}
	}
	return values
}

// What an event counts, and what it does not.
func TestWhatAnEventCounts(t *testing.T) {
	acquire := func(credential, operation string, d quota.Decision) any {
		return server.Decided{Verb: "acquire", Request: quota.Request{Credential: credential, Operation: operation, Count: 2}, Decision: d}
	}
	pass := func(outcome jobs.Outcome, units quota.Units) any {
		return jobs.PassChanged{Run: jobs.Run{Job: "fetch"}, Pass: jobs.Pass{Region: "US", Outcome: outcome, Units: units}}
	}
	granted, replayed := quota.Decision{}, quota.Decision{Replayed: true}
	for _, row := range []struct {
		name, metric string
		events       []any
		want         map[string]float64
	}{
		{"a grant", "quotad_debited_units_total", []any{acquire("api", "search", granted)}, map[string]float64{"api daily search": 20, "api trial search": 20}},
		{"a grant that is told again", "quotad_debited_units_total", []any{acquire("api", "search", replayed)}, map[string]float64{}},
		{"its decision", "quotad_decisions_total", []any{acquire("api", "search", replayed)}, map[string]float64{"api  search replayed": 1}},
		{"names that callers made up", "quotad_decisions_total", []any{
			acquire("api", "lsit", quota.Decision{Reason: quota.UnknownOperation}), acquire("api", "lits", quota.Decision{Reason: quota.UnknownOperation}),
			acquire("ipa", "list", quota.Decision{Reason: quota.UnknownCredential}), acquire("pai", "list", quota.Decision{Reason: quota.UnknownCredential}),
		}, map[string]float64{"api  (unknown) unknown_operation": 2, "(unknown)  (unknown) unknown_credential": 2}},
		{"a pass", "quotad_pass_duration_seconds", []any{pass(jobs.Running, 0), pass(jobs.Failed, 3)}, map[string]float64{"fetch": 1}},
		{"a pass that was not launched", "quotad_pass_duration_seconds", []any{pass(jobs.NotLaunched, 0)}, map[string]float64{}},
		{"its outcome", "quotad_passes_total", []any{pass(jobs.Running, 0), pass(jobs.NotLaunched, 0)}, map[string]float64{"fetch not_launched ": 1}},
		{"a run that begins", "quotad_runs_total", []any{jobs.RunChanged{Run: jobs.Run{Job: "fetch", State: jobs.RunRunning}}}, map[string]float64{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := counted(t, recording(t, row.events...), row.metric); !maps.Equal(got, row.want) {
				t.Errorf("%s is %v, want %v", row.metric, got, row.want)
			}
		})
	}
}

// An alert finds a trouble by its kind, by what it is of, and by whether it is grave.
func TestTroublesAreGauges(t *testing.T) {
	m := New("test")
	m.WatchTroubles(func(context.Context) []trouble.Trouble {
		return []trouble.Trouble{{Kind: trouble.Disk, Of: "host", Grave: true}, {Kind: trouble.Failing, Of: "job fetch"}}
	})
	want := map[string]float64{"true disk host": 1, "false failing job fetch": 1}
	if got := counted(t, m, "quotad_trouble"); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
