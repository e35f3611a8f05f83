package main

import (
	"context"
	"time"

	"quotad/jobs"
	"quotad/quota/redisledger"
)

const (
	// statusPause is the least time between two lines.
	statusPause = time.Second
	// statusAge is how old a line may become although nothing happens: units come back
	// by themselves.
	statusAge = time.Minute
)

// A statusNotifier sends the service manager one line about the daemon soon after
// something has changed.
type statusNotifier struct {
	line    func(context.Context) string
	send    func(line string)
	changed chan struct{} // holds one if something has changed
}

func newStatusNotifier(line func(context.Context) string, send func(string)) *statusNotifier {
	return &statusNotifier{line: line, send: send, changed: make(chan struct{}, 1)}
}

// notify has a line sent soon. It returns at once.
func (n *statusNotifier) notify() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// run sends a line whenever it differs from the last one, until ctx ends.
func (n *statusNotifier) run(ctx context.Context) {
	sent := ""
	for ctx.Err() == nil {
		if line := n.line(ctx); line != sent && ctx.Err() == nil {
			n.send(line)
			sent = line
		}
		wait(ctx, statusPause, nil)
		wait(ctx, statusAge, n.changed)
	}
}

// wait returns when something has changed, or after a timeout.
func wait(ctx context.Context, timeout time.Duration, changed <-chan struct{}) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
	}
}

// observe is a sink of events. What a call spends is sent with its pass, or after
// statusAge.
func (n *statusNotifier) observe(event any) {
	switch event.(type) {
	case jobs.RunChanged, jobs.PassChanged, redisledger.Event:
		n.notify()
	}
}
