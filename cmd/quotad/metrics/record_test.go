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
		r := quota.Request{Credential: credential, Operation: operation, Count: 2}
		return server.Decided{Verb: "acquire", Request: r, Decision: d}
	}
	pass := func(outcome jobs.Outcome) any {
		return jobs.PassChanged{Run: jobs.Run{Job: "fetch"}, Pass: jobs.Pass{Region: "US", Outcome: outcome}}
	}
	granted, replayed := quota.Decision{}, quota.Decision{Replayed: true}
	noOperation := quota.Decision{Reason: quota.UnknownOperation}
	noCredential := quota.Decision{Reason: quota.UnknownCredential}
	run := jobs.Run{Job: "fetch", State: jobs.RunRunning}
	type values map[string]float64
	for _, row := range []struct {
		name   string
		events []any
		metric string
		want   values
	}{
		{"a grant", []any{acquire("api", "search", granted)}, "quotad_debited_units_total",
			values{"api daily search": 20, "api trial search": 20}},
		{"a grant that is told again", []any{acquire("api", "search", replayed)}, "quotad_debited_units_total", values{}},
		{"its decision", []any{acquire("api", "search", replayed)}, "quotad_decisions_total",
			values{"api  search replayed": 1}},
		{"names that callers made up", []any{
			acquire("api", "lsit", noOperation), acquire("api", "lits", noOperation),
			acquire("ipa", "list", noCredential), acquire("pai", "list", noCredential),
		}, "quotad_decisions_total",
			values{"api  (unknown) unknown_operation": 2, "(unknown)  (unknown) unknown_credential": 2}},
		{"a pass", []any{pass(jobs.Running), pass(jobs.Failed)}, "quotad_pass_duration_seconds", values{"fetch": 1}},
		{"a pass that was not launched", []any{pass(jobs.NotLaunched)}, "quotad_pass_duration_seconds", values{}},
		{"its outcome", []any{pass(jobs.Running), pass(jobs.NotLaunched)}, "quotad_passes_total",
			values{"fetch not_launched ": 1}},
		{"a run that begins", []any{jobs.RunChanged{Run: run}}, "quotad_runs_total", values{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := values(counted(t, recording(t, row.events...), row.metric)); !maps.Equal(got, row.want) {
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
