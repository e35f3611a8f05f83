// Package notify runs commands that report events to people: that a trouble begins or ends, that a limit comes near or
// denies, that a run ends.
//
// Troubles come from the daemon, as changes of the list of package trouble. [Occurrences] is a sink of the daemon's
// events that finds what is no trouble (occurrences.go). Both are [Alert]s, and the daemon emits them as events. The
// [Notifier] is a sink too: it runs the command that the configuration names for an alert (notifier.go), with the
// variables that describe it (alert.go).
//
// The package writes nothing to disk. Occurrences.mu guards what is known of limits, Notifier.mu the alerts that
// wait; nothing is emitted or waited for under either.
package notify
