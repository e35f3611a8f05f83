// Package metrics counts for Prometheus what quotad decides and runs, and shows the state of its limits and jobs.
//
// [Metrics.Record] is a sink of the daemon's events: decisions, also about clients, calls through the proxy, passes and
// runs (metrics.go). At each scrape a collector reads the limits, the jobs and what needs a person
// (state.go). The values of labels are names of the configuration and words of quotad's own, never what a caller sent:
// their number is bounded.
//
// alerts.yml and dashboard.json are rules for Prometheus and a dashboard for Grafana; README.md says how to load them.
//
// The package writes nothing to disk, and has no locks.
package metrics
