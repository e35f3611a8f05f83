package main

import (
	"fmt"
	"sync"
	"time"

	"quotad/cmd/quotad/trouble"
	"quotad/quota"
	"quotad/quota/server"
)

// Observed counts what limits that are not enforced would have refused since quotad started.
type observed struct {
	since time.Time

	mu    sync.Mutex             // guards calls
	calls map[string]quota.Units // by "credential limit"
}

// record is a sink of events.
func (o *observed) record(event any) {
	e, ok := event.(server.Decided)
	if !ok || e.Verb != "acquire" || e.Err != nil {
		return
	}
	for _, short := range e.Decision.WouldDeny(e.Request.UseReserve) {
		o.mu.Lock()
		o.calls[e.Request.Credential+" "+short.Limit] += e.Request.Count
		o.mu.Unlock()
	}
}

// says is a note about a limit; empty: it would have refused nothing.
func (o *observed) says(name string, now time.Time) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls[name] == 0 {
		return ""
	}
	calls := quota.Count(int(o.calls[name]), "call", "calls")
	return fmt.Sprintf("%s would have refused %s since %s, if it were enforced", name, calls, trouble.At(o.since, now))
}
