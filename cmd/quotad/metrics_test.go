package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"quotad/quota/api"
)

const withMetrics = `
[metrics]
listen = "127.0.0.1:0"
[credentials.api]
limits.daily.units = 110
limits.daily.reserve = 10
operations.list = 1
[jobs.fetch]
credential = "api"
regions = ["one", "two"]
cron = "$FAR * * *"
stagger = "1ms"
run_at_start = true
command = ["sh", "-c", "quotactl acquire list && test $QUOTAD_REGION = one"]
`

// What happens to a daemon is in its metrics, at the socket and at their address, which serves nothing else of it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	daemon, client := startWith(t, withMetrics)
	daemon.logs(t, "^run failed$")
	for _, count := range []int64{33, 101} { // the second one never fits
		var refused *api.Problem
		if _, err := client.Acquire(context.Background(), api.AcquireRequest{Credential: "api", Operation: "list", Count: count}); err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
	}
	got := scrape(t, client)
	address := "http://" + daemon.logged(t, "serving metrics", "address")
	there := parse(t, fetch(t, address+"/metrics", http.StatusOK))
	for series, want := range map[string]float64{
		`quotad_grants_total{credential="api",operation="list"}`:                                            3,
		`quotad_denials_total{credential="api",limit="daily",operation="list",reason="limit_exceeded"}`:     0,
		`quotad_denials_total{credential="api",limit="daily",operation="list",reason="cost_exceeds_limit"}`: 1,
		`quotad_debited_units_total{credential="api",limit="daily",operation="list"}`:                       35,
		`quotad_limit_used_units{credential="api",limit="daily"}`:                                           35,
		`quotad_limit_left_units{credential="api",limit="daily"}`:                                           65,
		`quotad_acquire_duration_seconds_count`:                                                             4,
		`quotad_ledger_up{backend="embedded"}`:                                                              1,
		`quotad_runs_total{job="fetch",state="failed"}`:                                                     1,
		`quotad_job_running{job="fetch"}`:                                                                   0,
		`quotad_pass_duration_seconds_count{job="fetch"}`:                                                   2,
	} {
		if value, found := got[series]; !found || value != want || there[series] != want {
			t.Errorf("%s is %v (%v), and %v at the address, want %v", series, value, found, there[series], want)
		}
	}
	for _, r := range routesOf(t, client) {
		if slices.Contains([]string{"/metrics", "/healthz", "/readyz"}, r.Path) {
			fetch(t, address+r.Path, http.StatusOK)
		} else if r.Method == http.MethodGet {
			fetch(t, address+r.Path, http.StatusNotFound)
		}
	}
}

// scrape reads the metrics over the socket: series to value.
func scrape(t testing.TB, client *api.Client) map[string]float64 {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", client.Socket)
	}}
	answer, err := (&http.Client{Transport: transport}).Get("http://quotad/metrics")
	must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%d %v: %s", answer.StatusCode, err, body)
	}
	problems, err := promlint.New(bytes.NewReader(body)).Lint()
	must(t, err)
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
	return parse(t, body)
}

func parse(t testing.TB, body []byte) map[string]float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	must(t, err)
	samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, slices.Collect(maps.Values(families))...)
	must(t, err)
	all := make(map[string]float64, len(samples))
	for _, s := range samples {
		all[seriesOf(s.Metric)] = float64(s.Value)
	}
	return all
}

// seriesOf writes a series as one reads it in a scrape.
func seriesOf(m model.Metric) string {
	var labels []string
	for name, value := range m {
		if name != model.MetricNameLabel {
			labels = append(labels, fmt.Sprintf("%s=%q", name, value))
		}
	}
	name := string(m[model.MetricNameLabel])
	if len(labels) == 0 {
		return name
	}
	slices.Sort(labels)
	return name + "{" + strings.Join(labels, ",") + "}"
}

func fetch(t *testing.T, url string, want int) []byte {
	t.Helper()
	answer, err := http.Get(url)
	must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != want {
		t.Errorf("%s: %d %v, want %d: %s", url, answer.StatusCode, err, want, body)
	}
	return body
}
