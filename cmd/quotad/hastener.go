package main

import (
	"context"
	"time"

	"quotad/jobs"
	"quotad/jobs/process"
)

// A hastener launches processes that, asked to end, have no grace any more once
// hurry is closed.
type hastener struct {
	process.Launcher
	hurry <-chan struct{}
}

// Launch implements jobs.Launcher.
func (h hastener) Launch(ctx context.Context, command jobs.Command, output func(jobs.Line)) jobs.Exit {
	over, hastened := make(chan struct{}), make(chan bool, 1)
	hastened <- false // unless it is started
	started := command.Started
	command.Started = func(id jobs.Identity) {
		<-hastened
		go func() { hastened <- h.hasten(ctx, id, over) }()
		if started != nil {
			started(id)
		}
	}
	exit := h.Launcher.Launch(ctx, command, output)
	close(over)
	if <-hastened && exit.Cause == nil {
		exit.Cause = context.Cause(ctx) // it was killed before anybody else had asked it to end
	}
	return exit
}

// hasten kills a process that is asked to end in a hurry, with all that descends
// from it, and tells whether there was anything to kill.
func (h hastener) hasten(ctx context.Context, id jobs.Identity, over <-chan struct{}) (killed bool) {
	for _, both := range []<-chan struct{}{h.hurry, ctx.Done()} {
		select {
		case <-over:
			return false
		case <-both:
		}
	}
	const grace = 0
	killing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	killed, _ = process.EndLeftover(killing, id, grace) // Launch itself tells what became of the process
	return killed
}
