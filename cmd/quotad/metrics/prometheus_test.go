package metrics

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"quotad/jobs/process/processtest"
	"quotad/quota/seedtest"
)

func TestMain(m *testing.M) { os.Exit(processtest.Tests(m.Run).Run()) }

// What quotad ships for Prometheus and Grafana.
const (
	alertsFile = "alerts.yml"
	alertTests = "alerts_test.yml"
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

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	return string(text)
}

// Every alert fires when it should, and does not when it should not.
func TestPrometheusAlerts(t *testing.T) {
	seedtest.SkipUnderRace(t)
	promtool(t, "check", "rules", alertsFile)
	promtool(t, "test", "rules", alertTests)
	tests := read(t, alertTests)
	for _, a := range alertsOf(t) {
		if !strings.Contains(tests, "alertname: "+a.name+"\n        exp_alerts:\n          - exp_labels:") {
			t.Errorf("no test has %s fire", a.name)
		}
	}
}

// The page explains each alert, and no other; its configuration of Prometheus is one.
func TestPageOfPrometheus(t *testing.T) {
	page := read(t, "README.md")
	var want, got []string
	for _, a := range alertsOf(t) {
		want = append(want, a.name)
	}
	for _, row := range regexp.MustCompile("`(Quotad\\w+)`").FindAllStringSubmatch(page, -1) {
		got = append(got, row[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?scrape_configs:.*?)```").FindStringSubmatch(page)
	dir := t.TempDir()
	for name, text := range map[string]string{"alerts.yml": read(t, alertsFile), "prometheus.yml": block[1]} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	promtool(t, "check", "config", filepath.Join(dir, "prometheus.yml"))
}

type alert struct{ name, expr, text string }

func alertsOf(t *testing.T) (alerts []alert) {
	t.Helper()
	for _, rule := range strings.Split(read(t, alertsFile), "- alert: ")[1:] {
		name, text, _ := strings.Cut(rule, "\n")
		alerts = append(alerts, alert{name, regexp.MustCompile(`expr: (.*)`).FindStringSubmatch(text)[1], text})
	}
	if len(alerts) < 4 {
		t.Fatalf("there are %d alerts", len(alerts))
	}
	return alerts
}

// What the alerts and the dashboard ask for is there: each metric, with each label that they select, group by or show.
func TestPrometheusFindsEverything(t *testing.T) {
	labels := labelsOfMetrics()
	asks := func(where, expr, shown string) {
		var known []string
		for _, name := range regexp.MustCompile(`quotad_\w+|\bup\b`).FindAllString(expr, -1) {
			of, found := labels[name]
			if !found {
				of, found = labels[regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")]
			}
			if !found && name != "up" {
				t.Errorf("%s: there is no %s", where, name)
			}
			known = append(known, of...)
		}
		known = append(known, "instance", "job", "le")
		for _, match := range regexp.MustCompile(`\bby \(([^)]*)\)|[{,] *(\w+)=|(?:\$labels\.|{{)(\w+)`).FindAllStringSubmatch(expr+"\n"+shown, -1) {
			for label := range strings.SplitSeq(match[1]+match[2]+match[3], ", ") {
				if !slices.Contains(known, label) {
					t.Errorf("%s: %s has no label %s", where, expr, label)
				}
			}
		}
	}
	for _, a := range alertsOf(t) {
		asks(a.name, a.expr, a.text)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	must(t, json.Unmarshal([]byte(read(t, "dashboard.json")), &dashboard))
	queries := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			asks(panel.Title, target.Expr, target.LegendFormat)
			queries++
		}
	}
	if queries < 15 {
		t.Errorf("the dashboard has %d queries", queries)
	}
}

// labelsOfMetrics returns the labels of each metric as Prometheus has them: it keeps job for what it scrapes.
func labelsOfMetrics() map[string][]string {
	m := New("test")
	m.Watch(Sources{})
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		m.registry.Describe(descs)
	}()
	labels := map[string][]string{}
	for desc := range descs {
		if found := regexp.MustCompile(`fqName: "(quotad_\w+)".*variableLabels: {([^}]*)}`).FindStringSubmatch(desc.String()); found != nil {
			labels[found[1]] = strings.Split(regexp.MustCompile(`\bjob\b`).ReplaceAllString(found[2], "exported_job"), ",")
		}
	}
	return labels
}
