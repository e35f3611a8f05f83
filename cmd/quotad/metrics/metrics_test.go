package metrics

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
	"quotad/quota/proxy"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
)

// A configuration with what can happen beside what cannot: a limit that is not enforced denies nothing, a closed
// operation is not granted offline.
func expected() *config.Config {
	window := quota.Sliding(time.Hour)
	return &config.Config{
		Credentials: []*quota.Credential{{
			Name: "api",
			Limits: []quota.Limit{{Name: "daily", Units: 100, Reserve: 20, Window: window}, {Name: "trial", Units: 50,
				Window: window, DryRun: true}},
			Operations: map[string]quota.Cost{"list": {Every: 1}, "search": {Every: 10}},
		}},
		Outages: map[string]slidinglog.Policy{"api": {Open: map[string]bool{"list": true}, Units: 5}},
		Jobs:    []*jobs.Job{{Name: "fetch"}},
	}
}

// watching returns what has recorded some events about the expected credential, and watches what the sources say.
func watching(t *testing.T, s Sources, events ...any) *Metrics {
	t.Helper()
	c := expected()
	var err error
	s.Service, err = quota.NewService(ledgertest.NewModel(time.Now), c.Credentials, time.Minute)
	must(t, err)
	if s.Troubles == nil {
		s.Troubles = func(context.Context) (trouble.State, []trouble.Trouble) { return trouble.State{}, nil }
	}
	s.Observer = upstream.NewObserver(s.Service, nil, nil)
	m := New("test")
	m.Watch(s)
	m.Expect(c)
	for _, event := range events {
		m.Record(event)
	}
	return m
}

// series returns the values of a metric by the values of its labels in the order of their names.
func series(t *testing.T, m *Metrics, name string) map[string]float64 {
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
			values[strings.Join(labels, " ")] = one.GetCounter().GetValue() + one.GetGauge().GetValue() + float64(one.GetHistogram().GetSampleCount())
		}
	}
	return values
}

// What may happen begins at 0, so that the first one is an increase. What cannot happen has no series: one that stays at
// zero for ever is a promise of an alert that never fires.
func TestCountersBeginAtZero(t *testing.T) {
	for _, row := range []struct {
		metric string
		want   []string
	}{
		{"quotad_denials_total", []string{
			"api  list ledger_unavailable", "api  search ledger_unavailable", "api daily list limit_closed", "api daily list limit_exceeded",
			"api daily search limit_closed", "api daily search limit_exceeded"}},
		{"quotad_outage_grants_total", []string{"api list"}},
		{"quotad_runs_total", []string{"fetch done", "fetch failed", "fetch interrupted", "fetch skipped", "fetch stopped"}},
	} {
		m := New("test")
		m.Expect(expected())
		got := series(t, m, row.metric)
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, row.want) {
			t.Errorf("%s has %q, want %q", row.metric, names, row.want)
		}
		for name, value := range got {
			if value != 0 {
				t.Errorf("%s of %s begins at %v", row.metric, name, value)
			}
		}
	}
}

// What an event counts, and what it does not.
func TestWhatAnEventCounts(t *testing.T) {
	acquire := func(credential, operation string, d quota.Decision) any {
		r := quota.Request{Credential: credential, Operation: operation, Count: 2}
		return server.Decided{Verb: "acquire", Request: r, Decision: d}
	}
	settled := server.Decided{Verb: "settle", Request: quota.Request{Credential: "api", Operation: "list"}}
	over := quota.LimitState{Limit: quota.Limit{Name: "trial", Units: 1, DryRun: true}, Cost: 2}
	pass := func(outcome jobs.Outcome) any {
		return jobs.PassChanged{Run: jobs.Run{Job: "fetch"}, Pass: jobs.Pass{Region: "US", Outcome: outcome}}
	}
	client := func(known bool, d quota.Decision, err error) any {
		return clientlimit.Decided{Clients: "public", Known: known, Decision: d, Err: err}
	}
	limits := []quota.LimitState{{Limit: quota.Limit{Name: "daily"}, Cost: 20}, {Limit: quota.Limit{Name: "trial"}}}
	granted, replayed := quota.Decision{Limits: limits}, quota.Decision{Limits: limits, Replayed: true}
	noOperation := quota.Decision{Reason: quota.UnknownOperation}
	noCredential := quota.Decision{Reason: quota.UnknownCredential}
	full := quota.Decision{Reason: quota.LimitExceeded, Limit: "minute"}
	run := jobs.Run{Job: "fetch", State: jobs.RunRunning}
	done := jobs.Run{Job: "fetch", State: jobs.RunDone, EndedAt: time.Unix(1000, 0)}
	type values map[string]float64
	for _, row := range []struct {
		name   string
		events []any
		metric string
		want   values // those that are not 0
	}{
		{"a grant", []any{acquire("api", "search", granted)}, "quotad_debited_units_total",
			values{"api daily search": 20, "api trial search": 20}},
		{"a grant that is told again", []any{acquire("api", "search", replayed)}, "quotad_debited_units_total", values{}},
		{"its decision", []any{acquire("api", "search", replayed), acquire("api", "search", granted)}, "quotad_grants_total", values{"api search": 1}},
		{"what is no acquire", []any{settled}, "quotad_grants_total", values{}},
		{"a grant of an outage", []any{acquire("api", "list", granted), acquire("api", "list", granted), acquire("api",
			"list", quota.Decision{Outage: true})},
			"quotad_outage_grants_total", values{"api list": 1}},
		{"calls that a trial would deny", []any{acquire("api", "list", quota.Decision{Limits: []quota.LimitState{over}})},
			"quotad_would_deny_total", values{"api trial": 2}},
		{"calls of clients that a trial would deny", []any{client(true, quota.Decision{Limits: []quota.LimitState{over}},
			nil)},
			"quotad_client_would_deny_total", values{"public trial": 1}},
		{"names that callers made up", []any{
			acquire("api", "lsit", noOperation), acquire("api", "lits", noOperation),
			acquire("ipa", "list", noCredential), acquire("pai", "list", noCredential),
		}, "quotad_denials_total",
			values{"api  (unknown) unknown_operation": 2, "(unknown)  (unknown) unknown_credential": 2}},
		{"clients", []any{client(true, quota.Decision{}, nil)}, "quotad_client_grants_total", values{"public": 1}},
		{"clients that are refused", []any{client(true, full, nil), client(false, noCredential, nil), client(true, quota.Decision{}, quota.ErrUnavailable)},
			"quotad_client_denials_total", values{"public minute limit_exceeded": 1, "(unknown)  unknown_credential": 1, "public  ledger_unavailable": 1}},
		{"calls through the proxy", []any{
			proxy.Finished{Credential: "api", Status: 200}, proxy.Finished{Credential: "api", Status: 503},
			proxy.Finished{Credential: "api", Refused: quota.LimitExceeded}, proxy.Finished{Credential: "api", Err: errors.New("reset")},
		}, "quotad_proxy_requests_total", values{"2xx api": 1, "5xx api": 1, "refused api": 1, "no_answer api": 1}},
		{"a pass", []any{pass(jobs.Running), pass(jobs.Failed)}, "quotad_pass_duration_seconds", values{"fetch": 1}},
		{"a pass that was not launched", []any{pass(jobs.NotLaunched)}, "quotad_pass_duration_seconds", values{}},
		{"a pass that a killed daemon left", []any{jobs.PassChanged{Run: run, Pass: jobs.Pass{Outcome: jobs.Interrupted,
			Stop: jobs.Stop{Reason: jobs.Died}}}},
			"quotad_pass_duration_seconds", values{}},
		{"a run that failed", []any{jobs.RunChanged{Run: jobs.Run{Job: "fetch", State: jobs.RunFailed,
			EndedAt: time.Unix(1000, 0)}}},
			"quotad_job_last_success_timestamp_seconds", values{}},
		{"a run that begins", []any{jobs.RunChanged{Run: run}}, "quotad_runs_total", values{}},
		{"a run that ended", []any{jobs.RunChanged{Run: done}}, "quotad_runs_total", values{"fetch done": 1}},
		{"a good one", []any{jobs.RunChanged{Run: done}}, "quotad_job_last_success_timestamp_seconds", values{"fetch": 1000}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := values(series(t, watching(t, Sources{}, row.events...), row.metric))
			maps.DeleteFunc(got, func(_ string, value float64) bool { return value == 0 })
			if !maps.Equal(got, row.want) {
				t.Errorf("%s is %v, want %v", row.metric, got, row.want)
			}
		})
	}
}

// An alert finds a trouble by its kind, by what it is of, and by whether it is grave. Two causes are one series, and a
// label is bounded and legible, whatever the path of the file.
func TestTroublesAndJobsAreGauges(t *testing.T) {
	long := strings.Repeat("/deep\xff", 600)
	c := expected().Credentials[0]
	state := trouble.State{
		Jobs: []jobs.Status{{Name: "fetch", Last: &jobs.Run{State: jobs.RunRunning}}, {Name: "new"}},
		Credentials: []trouble.CredentialState{{Credential: c, Limits: []trouble.LimitState{
			{LimitState: quota.LimitState{Limit: c.Limits[0], Used: 10}}, {LimitState: quota.LimitState{Limit: c.Limits[1], Used: 10}},
		}}},
	}
	m := watching(t, Sources{Troubles: func(context.Context) (trouble.State, []trouble.Trouble) {
		return state, []trouble.Trouble{{Kind: trouble.Disk, Of: "host", Grave: true}, {Kind: trouble.Failing, Of: "job fetch", Cause: "a"},
			{Kind: trouble.Failing, Of: "job fetch", Cause: "b"}, {Kind: trouble.File, Of: long}}
	}})
	want := map[string]float64{"true disk host": 1, "false failing job fetch": 1, "false file " + quota.Clipped(long, maxLabel): 1}
	if got := series(t, m, "quotad_trouble"); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := series(t, m, "quotad_job_running"); !maps.Equal(got, map[string]float64{"fetch": 1, "new": 0}) {
		t.Errorf("running: %v", got)
	}
	for name, want := range map[string]map[string]float64{ // a limit that is not enforced is never empty
		"left": {"api daily": 70, "api trial": math.Inf(1)}, "used": {"api daily": 10, "api trial": 10},
		"reserve": {"api daily": 20, "api trial": 0}, "": {"api daily": 100, "api trial": 50},
	} {
		name = strings.ReplaceAll("quotad_limit_"+name+"_units", "__", "_")
		if got := series(t, m, name); !maps.Equal(got, want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// There are few metrics.
func TestMetricsAreFew(t *testing.T) {
	const most = 28
	if named := len(labelsOfMetrics()); named < 20 || named > most {
		t.Errorf("there are %d metrics, want at most %d", named, most)
	}
}

// must fails a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
