package main

import (
	"context"
	"time"

	"quotad/jobs"
	"quotad/jobs/process"
)

// A hastener launches processes that have no grace any more once hurry is closed.
type hastener struct {
	process.Launcher
	hurry <-chan struct{}
}

// Launch implements jobs.Launcher.
func (h hastener) Launch(ctx context.Context, command jobs.Command, output func(jobs.Line)) jobs.Exit {
	over := make(chan struct{})
	var hastened chan struct{} // closed when nobody watches the process any more
	started := command.Started
	command.Started = func(id jobs.Identity) {
		hastened = make(chan struct{})
		go func() {
			defer close(hastened)
			h.hasten(ctx, id, over)
		}()
		if started != nil {
			started(id)
		}
	}
	exit := h.Launcher.Launch(ctx, command, output)
	close(over)
	if hastened != nil {
		<-hastened
	}
	return exit
}

// hasten kills a process, and what descends from it, as soon as it is asked to
// end in a hurry.
func (h hastener) hasten(ctx context.Context, id jobs.Identity, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-h.hurry:
	}
	const grace = 0
	killing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	process.EndLeftover(killing, id, grace) // Launch itself tells what became of the process
}
