package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"quotad/quota/api"
)

// startWith starts a daemon with a configuration.
func startWith(t *testing.T, config string) (*child, *api.Client) {
	t.Helper()
	dir := shortDir(t)
	writeConfig(t, dir, config)
	return startIn(t, dir), &api.Client{Socket: filepath.Join(dir, ".quotad/quotad.sock")}
}

// logged returns a field of the first line of the log with a message.
func (c *child) logged(t testing.TB, message, field string) string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.log {
		var values map[string]any
		if json.Unmarshal([]byte(line), &values) == nil && values["message"] == message {
			return fmt.Sprint(values[field])
		}
	}
	t.Fatalf("quotad did not log %q", message)
	return ""
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
