// Package notify tells people of what quotad meets: a limit that comes near or denies,
// a ledger that cannot be reached, a job that fails.
//
// A [Monitor] is shown each decision, pass, run and outage. It finds the edges, so that
// what goes on for hours is one [Alert], and hands each alert to its receivers: the log,
// the metrics, and the [Notifier], which runs the command that the configuration names
// for the event (monitor.go, level.go, alert.go, notifier.go).
//
// The package writes nothing to disk, and nothing survives a restart. Monitor.mu guards
// what is known of limits, credentials and jobs; no receiver is called under it.
package notify
