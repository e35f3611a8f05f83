package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
)

const withMetrics = `
[metrics]
listen = "127.0.0.1:0"
[credentials.api]
limits.daily.units = 110
limits.daily.reserve = 10
limits.searches.units = 60
limits.searches.only = ["search"]
operations.list = 1
operations.search = 50
[jobs.fetch]
credential = "api"
regions = ["one", "two"]
cron = "$FAR * * *"
stagger = "1ms"
run_at_start = true
command = ["sh", "-c", "quotactl acquire list && test $QUOTAD_REGION = one"]
`

func TestMetrics(t *testing.T) {
	t.Parallel()
	daemon, client := startWith(t, withMetrics)
	daemon.logs(t, "^run failed$")
	for _, r := range []api.AcquireRequest{
		{Operation: "search", RequestID: "page-1"},
		{Operation: "search", RequestID: "page-1"}, // replayed
		{Operation: "search"},                      // denied: searches has 10 left
		{Operation: "list", Count: 33},             // 52 of 100 are spent, 85 after it: 5 above 80 %
		{Operation: "list", Count: 101},            // never
		{Operation: "no-such"},
		{Operation: "list", Credential: "no-such"},
	} {
		if r.Credential == "" {
			r.Credential = "api"
		}
		if _, err := client.Acquire(context.Background(), r); !isAnswer(err) {
			t.Fatal(err)
		}
	}
	got := scrape(t, client)
	for series, want := range map[string]float64{
		`quotad_grants_total{credential="api",operation="search"}`:                                                1,
		`quotad_grants_total{credential="api",operation="list"}`:                                                  3,
		`quotad_denials_total{credential="api",limit="searches",operation="search",reason="limit_exceeded"}`:      1,
		`quotad_denials_total{credential="api",limit="daily",operation="list",reason="limit_exceeded"}`:           0,
		`quotad_denials_total{credential="api",limit="daily",operation="list",reason="cost_exceeds_limit"}`:       1,
		`quotad_denials_total{credential="api",limit="",operation="(unknown)",reason="unknown_operation"}`:        1,
		`quotad_denials_total{credential="(unknown)",limit="",operation="(unknown)",reason="unknown_credential"}`: 1,
		`quotad_denials_total{credential="api",limit="daily",operation="search",reason="limit_exceeded"}`:         0,
		`quotad_debited_units_total{credential="api",limit="daily",operation="search"}`:                           50,
		`quotad_debited_units_total{credential="api",limit="searches",operation="search"}`:                        50,
		`quotad_debited_units_total{credential="api",limit="daily",operation="list"}`:                             35,
		`quotad_limit_units{credential="api",limit="daily"}`:                                                      110,
		`quotad_limit_reserve_units{credential="api",limit="daily"}`:                                              10,
		`quotad_limit_used_units{credential="api",limit="daily"}`:                                                 85,
		`quotad_limit_left_units{credential="api",limit="daily"}`:                                                 15,
		`quotad_limit_left_units{credential="api",limit="searches"}`:                                              10,
		`quotad_acquire_duration_seconds_count`:                                                                   9,
		`quotad_ledger_up{backend="embedded"}`:                                                                    1,
		`quotad_runs_total{job="fetch",state="failed"}`:                                                           1,
		`quotad_runs_total{job="fetch",state="done"}`:                                                             0,
		`quotad_job_running{job="fetch"}`:                                                                         0,
		`quotad_pass_duration_seconds_count{job="fetch"}`:                                                         2,
	} {
		if value, found := got[series]; !found || value != want {
			t.Errorf("%s is %v (%v), want %v", series, value, found, want)
		}
	}
	if n := got[`quotad_ledger_call_duration_seconds_count`]; n < 5 {
		t.Errorf("the ledger decided %v requests", n)
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(got)), func(s string) bool { return strings.HasPrefix(s, `quotad_build_info{goversion="go`) }) {
		t.Error("there is no quotad_build_info")
	}
	checkAddress(t, daemon, got)
}

// A reload that failed is a metric until one succeeds: an alert needs more than a line in the log.
func TestMetricsOfReloads(t *testing.T) {
	dir := shortDir(t)
	writeConfig(t, dir, withMetrics)
	daemon, client := startIn(t, dir), &api.Client{Socket: filepath.Join(dir, ".quotad/quotad.sock")}
	for _, step := range []struct {
		text, says string
		want       float64
	}{
		{withMetrics + "no such key", "^cannot reload", 1},
		{withMetrics, "^read again: ", 0},
	} {
		writeConfig(t, dir, step.text)
		daemon.cmd.Process.Signal(syscall.SIGHUP)
		daemon.logs(t, step.says)
		if got := scrape(t, client)[`quotad_trouble{grave="false",kind="file",of="config.toml"}`]; got != step.want {
			t.Errorf("after %q the trouble is %v, want %v", step.says, got, step.want)
		}
	}
}

// isAnswer tells whether the daemon answered, be it with a refusal.
func isAnswer(err error) bool {
	var refused *api.Problem
	return err == nil || errors.As(err, &refused)
}

// What callers make up adds no series.
func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	daemon, client := startWith(t, withMetrics)
	daemon.logs(t, "^run failed$")
	ask := func(from, to int) {
		for i := from; i < to; i++ {
			for _, credential := range []string{"api", fmt.Sprintf("credential-%d", i)} {
				r := api.AcquireRequest{Credential: credential, Operation: fmt.Sprintf("operation-%d", i)}
				if d, err := client.Acquire(context.Background(), r); !isAnswer(err) || d.Granted {
					t.Fatalf("%+v: %+v, %v", r, d, err)
				}
				if d, err := client.Release(context.Background(), fmt.Sprintf("%s:%d-0", credential, i)); !isAnswer(err) || d.Granted {
					t.Fatalf("release: %+v, %v", d, err)
				}
			}
		}
	}
	ask(0, 1)
	before := len(scrape(t, client))
	ask(1, 20)
	after := scrape(t, client)
	if len(after) != before {
		t.Errorf("there are %d series, %d before many names: %v", len(after), before, slices.Sorted(maps.Keys(after)))
	}
}

// checkAddress holds what the loopback address serves against the socket.
func checkAddress(t *testing.T, daemon *child, socket map[string]float64) {
	t.Helper()
	address := "http://" + daemon.logged(t, "serving metrics", "address")
	got := parse(t, fetch(t, address+"/metrics", http.StatusOK))
	for series, want := range socket {
		if strings.HasPrefix(series, "quotad_limit_used") && got[series] != want {
			t.Errorf("at the address %s is %v, want %v", series, got[series], want)
		}
	}
	fetch(t, address+"/healthz", http.StatusOK)
	fetch(t, address+"/readyz", http.StatusOK)
	fetch(t, address+"/v1/status", http.StatusNotFound)
	fetch(t, strings.Replace(address, "127.0.0.1", "[::ffff:127.0.0.1]", 1)+"/metrics", http.StatusOK)
}

// Only a server can go down: the gauges then say so, and soon.
func TestMetricsOfAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	daemon, client := startWith(t, fmt.Sprintf(`
[ledger]
backend = "redis"
redis.addrs = [%q]
deadline = "5s"
[credentials.api]
limits.daily.units = 100
operations.list = 1
on_outage.list = "open"
on_outage.open_units = 5
`, server.Addr))
	acquire := func() {
		t.Helper()
		if d, err := spend(client); err != nil || !d.Granted {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	acquire()
	server.Kill()
	acquire()
	acquire()
	down := scrape(t, client)
	for series, want := range map[string]float64{
		`quotad_ledger_up{backend="redis"}`:                                           0,
		`quotad_outage_grants_total{credential="api",operation="list"}`:               2,
		`quotad_limit_units{credential="api",limit="daily"}`:                          100,
		`quotad_debited_units_total{credential="api",limit="daily",operation="list"}`: 3,
		`quotad_limit_used_units{credential="api",limit="daily"}`:                     3, // in this host's copy
	} {
		if value, found := down[series]; !found || value != want {
			t.Errorf("during the outage %s is %v (%v), want %v", series, value, found, want)
		}
	}
	server.Run(t)
	daemon.logs(t, "^ledger up$")
	eventually(t, func() bool { return scrape(t, client)[`quotad_ledger_up{backend="redis"}`] == 1 })
}
