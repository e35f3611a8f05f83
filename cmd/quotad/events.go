package main

// Events are all that happens in the daemon. Each is passed on to every sink, in their
// order and before emit returns, so sinks return soon; many goroutines emit at the same
// time. An event is what the package says in which it happens: a server.Event or
// Attempt of the API, a slidinglog.Event, the events of package jobs, and a
// notify.Alert, Result or Output, which are themselves made of others.
type events struct{ sinks []func(event any) }

func (e *events) emit(event any) {
	for _, sink := range e.sinks {
		sink(event)
	}
}

// emitting returns emit for events of one type.
func emitting[Event any](e *events) func(Event) {
	return func(event Event) { e.emit(event) }
}
