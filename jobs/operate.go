package jobs

import (
	"fmt"
	"slices"
	"time"

	"quotad/regions"
)

// Run begins a run of a job that an operator asks for, and returns its record as it begins. With regions it goes
// through these, in this order, and leaves the cursor alone; without, it takes the ring's turn. The passes start
// without a stagger; a paused job is run too. The errors are ErrUnknown, ErrInvalid, ErrUnderWay and ErrStopping.
func (r *Runner) Run(job, by string, list ...regions.Region) (Run, error) {
	j, err := r.state(job)
	if err != nil {
		return Run{}, err
	}
	if err := regions.Check(list); err != nil && len(list) > 0 {
		return Run{}, fmt.Errorf("%w: %v", ErrInvalid, err)
	}
	for _, region := range list {
		if !slices.Contains(j.current().Regions, region) {
			return Run{}, fmt.Errorf("region %q of job %q: %w", region, j.name, ErrUnknown)
		}
	}
	now := r.now()
	done, err := r.enter()
	if err != nil {
		return Run{}, err
	}
	defer done()
	run := Run{ID: newRunID(now), Trigger: Manual, By: by, Slot: now, Ring: slices.Clone(list), Chosen: len(list) > 0}
	return r.begin(j, run)
}

// StopRun ends the passes of a run under way and launches no more of it. It does
// not wait for that. The error is ErrUnknown if no such run is under way.
func (r *Runner) StopRun(id string) error {
	if e := r.executorOf(id); e != nil {
		e.end(ErrOperator)
		return nil
	}
	return fmt.Errorf("run %q: %w among those under way", id, ErrUnknown)
}

// Pause keeps the schedule from running a job, over restarts, for a time or, if length is 0, until Resume. A run under
// way continues.
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
	j, err := r.state(job)
	if err != nil {
		return err
	}
	now := r.now()
	return j.change(func(s *state) { s.pause(p, now) })
}
