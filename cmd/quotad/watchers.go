package main

import (
	"context"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/server"
)

// A watcher is told what happens in the daemon, by many goroutines at the same
// time, each of which waits for it.
type watcher interface {
	jobs.Observer
	Decided(server.Event)
	Outage(redisledger.Event)
}

// Watchers tell each of several what happens.
type watchers []watcher

var _ watcher = watchers{}

// RunChanged implements jobs.Observer.
func (w watchers) RunChanged(run jobs.Run) {
	for _, one := range w {
		one.RunChanged(run)
	}
}

// PassChanged implements jobs.Observer.
func (w watchers) PassChanged(run jobs.Run, pass jobs.Pass) {
	for _, one := range w {
		one.PassChanged(run, pass)
	}
}

// Output implements jobs.Observer.
func (w watchers) Output(job, run string, pass jobs.Pass, line jobs.Line) {
	for _, one := range w {
		one.Output(job, run, pass, line)
	}
}

// Trouble implements jobs.Observer.
func (w watchers) Trouble(job string, err error) {
	for _, one := range w {
		one.Trouble(job, err)
	}
}

func (w watchers) Decided(event server.Event) {
	for _, one := range w {
		one.Decided(event)
	}
}

func (w watchers) Outage(event redisledger.Event) {
	for _, one := range w {
		one.Outage(event)
	}
}

// A watchedGate tells of what keeps jobs from beginning: then nobody is there to
// be denied a call.
type watchedGate struct {
	*quota.Service
	denied func(credential string, d quota.Decision)
}

// Peek implements jobs.Gate.
func (g watchedGate) Peek(ctx context.Context, credential string, calls map[string]quota.Units, useReserve bool) (quota.Decision, error) {
	d, err := g.Service.Peek(ctx, credential, calls, useReserve)
	if d.Reason == quota.LimitExceeded {
		g.denied(credential, d)
	}
	return d, err
}
