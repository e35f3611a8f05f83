// Package notify runs commands that report events to people: a limit that comes near or denies,
// a ledger that cannot be reached, a job that fails.
//
// A [Monitor] is a sink of the daemon's events: decisions, passes, runs, outages. It finds
// the edges, so that a state that lasts for hours is one [Alert], which it emits as another
// event (monitor.go). The [Notifier] is a sink too: it runs
// the command that the configuration names for an alert (notifier.go), with the variables that
// describe it (alert.go).
//
// The package writes nothing to disk, and nothing survives a restart. Monitor.mu guards
// what is known of limits, credentials and jobs; nothing is emitted under it.
package notify
