package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"quotad/regions"
)

// Run begins a run of a job that an operator asks for, and returns its record as it begins. With
// regions it goes through these, in this order, and leaves the cursor alone; without, it takes the
// ring's turn. The passes find set in their environment, and start one after the other without a
// stagger, through the same gate as any; a paused job is run too. The errors are ErrUnknown,
// ErrInvalid, ErrUnderWay and ErrStopping.
func (r *Runner) Run(job, by string, set []Variable, list ...regions.Region) (Run, error) {
	j, err := r.state(job)
	if err != nil {
		return Run{}, err
	}
	if err := checkVariables(set); err != nil {
		return Run{}, err
	}
	if len(list) > 0 {
		if err := regions.Check(list); err != nil {
			return Run{}, fmt.Errorf("%w: %v", ErrInvalid, err)
		}
	}
	for _, region := range list {
		if err := j.has(region); err != nil {
			return Run{}, err
		}
	}
	now := r.now()
	done, err := r.enter()
	if err != nil {
		return Run{}, err
	}
	defer done()
	return r.begin(context.Background(), j, Run{
		ID: NewRunID(now), Trigger: Manual, By: by, Slot: now, Set: set, Ring: slices.Clone(list), Chosen: len(list) > 0,
	}, nil)
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

// SetCursor sets the region at which a job's next run begins; empty: the beginning of the ring. A
// run that is under way moves the cursor by itself and is not disturbed: then the error is
// ErrUnderWay.
func (r *Runner) SetCursor(job string, region regions.Region) error {
	j, err := r.state(job)
	if err != nil {
		return err
	}
	cursor := regions.Cursor(region)
	if region != "" {
		if err := j.has(region); err != nil {
			return err
		}
	}
	writeErr, err := (&waiting{job: j}).decide(context.Background(), record{Cursor: &cursor})
	if err = errors.Join(err, writeErr); err != nil {
		return fmt.Errorf("cannot set the cursor of job %q: %w", job, err)
	}
	return nil
}

// Pause keeps the schedule from running a job, over restarts, for a time or, if length is 0, until
// Resume. A run under way continues. The pause says who paused the job, and why.
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
	defer r.checkSuccess()
	one := record{Pause: p}
	if p == nil {
		one.Resumed = r.now()
	}
	writeErr, err := j.decide(context.Background(), func() ([]record, error) { return []record{one}, nil }, nil)
	if err != nil {
		return fmt.Errorf("cannot share the pause of job %q with other hosts: %w", job, err)
	}
	return writeErr
}

// MaxBookmark is the maximum length of a bookmark in bytes.
const MaxBookmark = 4096

// Bookmark returns what the last pass of a region left for the next one; empty if
// nothing. The error is ErrUnknown.
func (r *Runner) Bookmark(job string, region regions.Region) (string, error) {
	j, err := r.regionOf(job, region)
	if err != nil {
		return "", err
	}
	r.refresh(j)
	return j.bookmark(region), nil
}

// SetBookmark replaces what the next pass of a region finds, on any host; empty removes it. On
// return it is on disk, and other hosts know it, or read it as soon as they can be reached. The
// errors are ErrUnknown, ErrInvalid and those of the disk.
func (r *Runner) SetBookmark(job string, region regions.Region, text string) error {
	j, err := r.regionOf(job, region)
	if err != nil {
		return err
	}
	if len(text) > MaxBookmark || !utf8.ValidString(text) || hasNUL(text) {
		return fmt.Errorf("%w: a bookmark is text of at most %d bytes without NUL", ErrInvalid, MaxBookmark)
	}
	one := record{Bookmark: &bookmarked{region, text}}
	writeErr, err := j.decide(context.Background(), func() ([]record, error) { return []record{one}, nil }, nil)
	if err != nil { // the other hosts read it as soon as they can
		return j.update(true, true, func() []record { return []record{one} })
	}
	return writeErr
}

func (r *Runner) regionOf(job string, region regions.Region) (*jobControl, error) {
	j, err := r.state(job)
	if err == nil {
		err = j.has(region)
	}
	return j, err
}

// has returns ErrUnknown unless a region is one of the job's.
func (j *jobControl) has(region regions.Region) error {
	if !slices.Contains(j.current().Regions, region) {
		return fmt.Errorf("region %q of job %q: %w", region, j.name, ErrUnknown)
	}
	return nil
}
