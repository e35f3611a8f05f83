package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"quotad/cmd/ytfetch/upstream"
	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// What quotad ships for Prometheus and Grafana.
const (
	watchFile     = "metrics/README.md"
	alertsFile    = "metrics/alerts.yml"
	alertTests    = "metrics/alerts_test.yml"
	dashboardFile = "metrics/dashboard.json"
)

// promtool runs Debian's promtool of the package prometheus.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("promtool is required and not installed: apt-get install prometheus")
		}
		t.Skip("promtool is not installed: apt-get install prometheus")
	}
	if output, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, output)
	}
}

// Every alert fires when it should, and does not when it should not.
func TestPrometheusAlerts(t *testing.T) {
	seedtest.SkipUnderRace(t)
	promtool(t, "check", "rules", alertsFile)
	promtool(t, "test", "rules", alertTests)
	tests := readPage(t, alertTests)
	for _, alert := range alertsOf(t) {
		if !strings.Contains(tests, "alertname: "+alert.name+"\n        exp_alerts:\n          - exp_labels:") {
			t.Errorf("no test has %s fire", alert.name)
		}
	}
}

// The page explains each alert, and no other.
func TestPageListsEveryAlert(t *testing.T) {
	var want, got []string
	for _, alert := range alertsOf(t) {
		want = append(want, alert.name)
	}
	for _, row := range regexp.MustCompile("`(Quotad\\w+)`").FindAllStringSubmatch(readPage(t, watchFile), -1) {
		got = append(got, row[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The page's configuration of Prometheus is one.
func TestPrometheusConfig(t *testing.T) {
	blocks := blocksOf(readPage(t, watchFile), "scrape_configs:")
	if len(blocks) != 1 {
		t.Fatalf("%d blocks of the page configure Prometheus", len(blocks))
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"alerts.yml": readPage(t, alertsFile), "prometheus.yml": blocks[0]} {
		write(t, dir, name, text)
	}
	promtool(t, "check", "config", filepath.Join(dir, "prometheus.yml"))
}

// withEverything has a daemon show every metric that the alerts and the dashboard name.
const withEverything = `
[ledger]
backend = "redis"
redis.addrs = [%q]
deadline = "5s"
[metrics]
listen = "127.0.0.1:0"
[proxy]
listen = "127.0.0.1:0"
[credentials.api]
limits.daily = { units = 1_000, reserve = 10 }
limits.few = { units = 1, only = ["rare"] }
operations = { list = 1, rare = 1 }
answers.headers = { limit = "x-limit", remaining = "x-remaining" }
on_outage = { list = "open", open_units = 5 }
[credentials.youtube]
preset = "youtube-classic"
proxy = { upstream = %q, key_file = "youtube.key" }
[jobs.differing]
credential = "api"
regions = ["US"]
cron = "$FAR * * *"
run_at_start = true
command = ["sh", "-c", "quotactl acquire list && curl -sS --unix-socket $QUOTAD_SOCKET -H \"Authorization: Bearer $QUOTAD_TOKEN\" http://quotad/v1/observe -d operation=list -d status=200 --data-urlencode 'header=x-limit: 1000\nx-remaining: 900'"]
[jobs.closing]
credential = "api"
regions = ["US"]
cron = "$FAR * * *"
run_at_start = true
command = ["sh", "-c", "quotactl acquire rare && echo '{\"error\":{\"code\":403,\"errors\":[{\"domain\":\"youtube.quota\",\"reason\":\"quotaExceeded\"}]}}' >b && curl -sS --unix-socket $QUOTAD_SOCKET -H \"Authorization: Bearer $QUOTAD_TOKEN\" http://quotad/v1/observe -d operation=rare -d status=403 --data-urlencode body@b"]
[jobs.late]
credential = "api"
regions = ["US"]
every = "1s"
stagger = "0s"
command = ["false"]
[jobs.proxied]
credential = "youtube"
regions = ["US"]
cron = "$FAR * * *"
run_at_start = true
command = ["sh", "-c", "exec ytfetch trending --upstream $QUOTAD_PROXY"]
[clients.public]
units = 60
window = "1m"
`

// Prometheus finds what the alerts and the dashboard ask for in what a daemon shows: each metric,
// and each label.
func TestPrometheusFindsEverything(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	series := seriesOfADaemon(t)
	var tests []any
	for _, q := range slices.Concat(dashboardQueries(t), alertQueries(t)) {
		exists := fmt.Sprintf("count(%s) > bool 0", q.expr)
		tests = append(tests, isOne(exists))
		for _, label := range q.labels {
			// vector(1) is a sample without labels: it takes away those that lack this one.
			tests = append(tests, isOne(fmt.Sprintf("count((%[1]s) unless on (%[2]s) vector(1)) == bool count(%[1]s)", q.expr, label)))
		}
	}
	file := filepath.Join(t.TempDir(), "test.json") // YAML is a superset
	text, err := json.Marshal(map[string]any{"tests": []any{
		map[string]any{"interval": "1m", "input_series": series, "promql_expr_test": tests},
	}})
	must(t, err)
	must(t, os.WriteFile(file, text, 0o600))
	promtool(t, "test", "rules", file)
}

// isOne is a test of promtool's: an expression is 1, without labels.
func isOne(expr string) any {
	return map[string]any{"expr": expr, "eval_time": "30m", "exp_samples": []any{map[string]any{"labels": "{}", "value": 1}}}
}

// seriesOfADaemon returns what a daemon shows when all has happened, half an hour of it, under the
// labels that Prometheus gives it.
func seriesOfADaemon(t *testing.T) (series []any) {
	t.Helper()
	youtube := httptest.NewServer(upstream.New(upstream.Config{Quota: 10_000, Key: "the-real-upstream-key"}))
	t.Cleanup(youtube.Close)
	dir := shortDir(t)
	for name, text := range map[string]string{
		"config.toml": fmt.Sprintf(withEverything, redistest.Start(t).Addr, youtube.URL),
		"youtube.key": "the-real-upstream-key\n",
	} {
		write(t, dir, name, text)
	}
	daemon, client := startIn(t, dir), &api.Client{Socket: filepath.Join(dir, ".quotad/quotad.sock")}
	if _, err := client.AcquireClient(context.Background(), "public", api.ClientRequest{Subject: "192.0.2.1"}); err != nil {
		t.Fatal(err)
	}
	lastRun(t, client, "differing")
	lastRun(t, client, "closing")
	lastRun(t, client, "proxied")
	daemon.logs(t, "^trouble$", "kind=failing")
	add := func(name string, value float64) {
		step := "+0x30"
		if strings.HasPrefix(name, "quotad_limit_left_units") {
			step = "-1x30"
		}
		values := strings.TrimPrefix(strconv.FormatFloat(value, 'f', -1, 64), "+") + step
		series = append(series, map[string]any{"series": name, "values": values})
	}
	const target = `{job="quotad",instance="host:9464"`
	add("up"+target+"}", 1)
	own := regexp.MustCompile(`([{,])job=`)
	for name, value := range scrape(t, client) {
		name, labels, _ := strings.Cut(own.ReplaceAllString(name, "${1}exported_job="), "{")
		add(name+target+","+cmp.Or(labels, "}"), value)
	}
	return series
}

// A query is one to Prometheus, with the labels that the answer must have.
type query struct {
	expr   string
	labels []string
}

// dashboardQueries returns the queries of the dashboard as Grafana asks them.
func dashboardQueries(t *testing.T) (queries []query) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	must(t, json.Unmarshal([]byte(readPage(t, dashboardFile)), &dashboard))
	variables := strings.NewReplacer("$credential", ".*", "$__rate_interval", "5m")
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			q := query{expr: variables.Replace(target.Expr)}
			for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				q.labels = append(q.labels, label[1])
			}
			queries = append(queries, q)
		}
	}
	if len(queries) < 15 {
		t.Fatalf("the dashboard has %d queries", len(queries))
	}
	return queries
}

type alert struct{ name, expr, says string }

func alertsOf(t *testing.T) (alerts []alert) {
	t.Helper()
	for _, rule := range strings.Split(readPage(t, alertsFile), "- alert: ")[1:] {
		name, says, _ := strings.Cut(rule, "\n")
		expr := regexp.MustCompile(`expr: (.*)`).FindStringSubmatch(says)
		alerts = append(alerts, alert{name, expr[1], says})
	}
	if len(alerts) < 4 {
		t.Fatalf("there are %d alerts", len(alerts))
	}
	return alerts
}

// alertQueries returns each metric of the alerts, with the labels that they show.
func alertQueries(t *testing.T) (queries []query) {
	t.Helper()
	for _, a := range alertsOf(t) {
		var labels []string
		for _, label := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(a.says, -1) {
			labels = append(labels, label[1])
		}
		for _, metric := range regexp.MustCompile(`(quotad_\w+|up)({[^}]*})?`).FindAllString(a.expr, -1) {
			queries = append(queries, query{metric, labels})
		}
	}
	return queries
}
