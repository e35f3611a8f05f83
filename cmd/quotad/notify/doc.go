// Package notify runs the command of [on_event] for events: a trouble begins or ends, little is left of a limit, a run
// starts or ends.
//
// Troubles come from the daemon, as changes of the list of package trouble. [Watch] is a sink of the daemon's events that
// finds the others (watch.go). Each is an [Event] (event.go), which the daemon emits. The [Notifier] is a sink too: it
// runs the command for one event after the other (notifier.go).
//
// The package writes nothing to disk. Watch.mu guards which limits are low; nothing is emitted or waited for under it.
package notify
