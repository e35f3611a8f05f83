package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quotad/regions"
)

// Errors of a Runner, to be found by errors.Is.
var (
	// ErrUnknown: no such job, region or run.
	ErrUnknown = errors.New("not found")
	// ErrUnderWay: the job is being run already.
	ErrUnderWay = errors.New("a run of the job is under way")
	// ErrInvalid: what was asked for makes no sense.
	ErrInvalid = errors.New("invalid")
	// ErrStopping: the daemon begins nothing more.
	ErrStopping = errors.New("the daemon is stopping and begins nothing more")
)

// An order asks for one run of a job.
type order struct {
	trigger Trigger
	by      string
	slot    time.Time
	regions []regions.Region // empty: the ring's turn, beginning at the cursor

	// Of a job that other hosts run too: the id under which the job is held for
	// the run, and for how long at a time.
	id    string
	lease time.Duration
}

// begin begins a run, which goes on after begin has returned its record.
func (r *Runner) begin(d *desk, o order) (Run, error) {
	w := &walk{runner: r, desk: d, slot: o.slot, done: make(chan struct{})}
	ctx, end := context.WithCancelCause(context.Background())
	launching, halt := context.WithCancelCause(ctx)
	w.end, w.halt = end, halt
	run, err := w.settle(o)
	if err != nil {
		end(nil)
		return Run{}, err
	}
	r.config.Observer.RunChanged(run)
	if w.lease != nil {
		go w.lease.keep()
	}
	go w.around(ctx, launching)
	return run, nil
}

// settle makes w the desk's walk, and what it needs to know its own.
func (w *walk) settle(o order) (Run, error) {
	d, now := w.desk, w.runner.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.runner.isStopping() {
		return Run{}, ErrStopping
	}
	if d.walk != nil {
		return Run{}, fmt.Errorf("job %q: %w: %s", d.name, ErrUnderWay, d.walk.id)
	}
	w.job, w.id = d.job, cmp.Or(o.id, NewRunID(now))
	if o.lease > 0 {
		w.lease = newLease(w, o.lease)
	}
	w.places = make(chan struct{}, max(1, w.job.Parallel))
	w.ring, w.turns = d.job.Regions.From(d.memory.Cursor), len(o.regions) == 0
	if !w.turns {
		w.ring = slices.Clone(o.regions)
	}
	if o.trigger != Manual { // whoever asks for a run waits for it
		w.stagger = w.job.stagger(o.slot, len(w.ring))
	}
	w.run = &Run{ID: w.id, Job: d.name, Trigger: o.trigger, By: o.by, Host: w.runner.config.Host, Slot: o.slot, StartedAt: now, State: RunRunning, Ring: w.ring}
	w.unfiled = d.memory.Skips
	// What is on disk follows with the first pass: until then a restart finds a
	// slot that nobody ticked.
	d.walk, d.memory.Last, d.memory.Skips = w, w.run, nil
	return w.run.clone(), nil
}
