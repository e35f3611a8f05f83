package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"quotad/regions"
)

// Run begins a run of a job because somebody asked for it, and returns its
// record as it begins. With regions it goes through these, in this order, and
// leaves the cursor alone; without, it takes the ring's turn. The passes start
// one after the other without a stagger, through the same gate as any; a paused
// job is run too. The errors are ErrUnknown, ErrInvalid, ErrUnderWay and
// ErrStopping.
func (r *Runner) Run(job, by string, list ...regions.Region) (Run, error) {
	d, err := r.desk(job)
	if err != nil {
		return Run{}, err
	}
	if len(list) > 0 {
		if err := regions.Check(list); err != nil {
			return Run{}, fmt.Errorf("%w: %v", ErrInvalid, err)
		}
	}
	for _, region := range list {
		if !slices.Contains(d.current().Regions, region) {
			return Run{}, fmt.Errorf("region %q of job %q: %w", region, job, ErrUnknown)
		}
	}
	o := order{trigger: Manual, by: by, slot: r.now(), regions: list}
	if r.config.Fleet != nil {
		return r.beginAlone(context.Background(), d, o, false)
	}
	return r.begin(d, o)
}

// StopRun ends the passes of a run under way and launches no more of it. It does
// not wait for that. The error is ErrUnknown if no such run is under way.
func (r *Runner) StopRun(id string) error {
	for _, w := range r.underWay() {
		if w.id == id {
			w.end(ErrOperator)
			return nil
		}
	}
	return fmt.Errorf("run %q: %w among those under way", id, ErrUnknown)
}

// SetCursor has a job's next run begin at a region, or at the beginning of the
// ring if region is empty. A run that is under way moves the cursor on by itself
// and is not disturbed: then the error is ErrUnderWay.
func (r *Runner) SetCursor(job string, region regions.Region) error {
	d, err := r.desk(job)
	if err != nil {
		return err
	}
	if region != "" && !slices.Contains(d.current().Regions, region) {
		return fmt.Errorf("region %q of job %q: %w", region, job, ErrUnknown)
	}
	if r.config.Fleet != nil {
		if err := r.shareCursor(d, region); err != nil {
			return fmt.Errorf("cannot set the cursor of job %q: %w", job, err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.walk != nil {
		return fmt.Errorf("cannot set the cursor of job %q: %w: %s", job, ErrUnderWay, d.walk.id)
	}
	d.memory.Cursor, d.memory.Dry = regions.Cursor(region), 0
	return d.keep()
}

// Pause keeps the schedule from running a job, over restarts, for a time or, if
// length is 0, until Resume. A run under way goes on. The pause tells who paused
// the job, and why.
func (r *Runner) Pause(job, by, note string, length time.Duration) error {
	p := &Pause{Since: r.now(), By: by, Note: note}
	if length > 0 {
		p.Until = p.Since.Add(length)
	}
	return r.setPause(job, p)
}

// Resume ends a pause, if there is one.
func (r *Runner) Resume(job string) error {
	return r.setPause(job, nil)
}

func (r *Runner) setPause(job string, p *Pause) error {
	d, err := r.desk(job)
	if err != nil {
		return err
	}
	if r.config.Fleet != nil {
		if err := r.sharePause(d, p); err != nil {
			return fmt.Errorf("cannot tell other hosts the pause of job %q: %w", job, err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory.Pause = p
	return d.keep()
}
