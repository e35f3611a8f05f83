// Package metrics counts for Prometheus what quotad decides and runs, and shows how its
// limits stand.
//
// [Metrics.Observe] is a sink of the daemon's events: decisions, passes, runs, alerts, outages (decisions.go, clients.go,
// meters.go, jobs.go) and measures the calls of the ledger (ledger.go). The limits are asked for
// when somebody scrapes (limits.go), and how fast each is spent is derived from one
// scrape to the next (burnrate.go). The values of labels are names of the configuration
// and words of quotad's own, never what a caller sent: their number is bounded.
//
// The package writes nothing to disk. Its only lock is limits.mu, for the burn rates.
package metrics
