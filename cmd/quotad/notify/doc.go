// Package notify tells people of what quotad meets: a limit that comes near or denies,
// a ledger that cannot be reached, a job that fails.
//
// A [Monitor] is a sink of the daemon's events: decisions, passes, runs, outages. It finds
// the edges, so that what goes on for hours is one [Alert], which it emits as another
// event. The [Notifier] takes that one and runs the command that the configuration names
// for it (monitor.go, level.go, alert.go, notifier.go).
//
// The package writes nothing to disk, and nothing survives a restart. Monitor.mu guards
// what is known of limits, credentials and jobs; nothing is emitted under it.
package notify
