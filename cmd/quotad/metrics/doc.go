// Package metrics counts for Prometheus what quotad decides and runs, and shows the state of its
// limits.
//
// [Metrics.Record] is a sink of the daemon's events (metrics.go): decisions, passes, runs, alerts,
// outages (decisions.go), and decisions about clients (clients.go). Grants have counters of their own
// for each operation (meters.go). At each scrape a collector (collector.go) reads the limits
// (limits.go), what needs a person (troubles.go) and the clients. The values of
// labels are names of the configuration and words of quotad's own, never what a caller sent: their
// number is bounded.
//
// alerts.yml and dashboard.json are rules for Prometheus and a dashboard for Grafana; README.md says how to
// load them.
//
// The package writes nothing to disk, and has no locks.
package metrics
