package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"quotad/quota"
	"quotad/regions"
)

// Run begins a run of a job that an operator asks for, and returns its record as it begins. With
// regions it goes through these, in this order, and leaves the cursor alone; without, it takes the
// ring's turn. The passes start one after the other without a
// stagger, through the same gate as any; a paused job is run too. The errors are ErrUnknown,
// ErrInvalid, ErrUnderWay and ErrStopping.
func (r *Runner) Run(job, by string, list ...regions.Region) (Run, error) {
	j, err := r.state(job)
	if err != nil {
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
	run := Run{ID: newRunID(now), Trigger: Manual, By: by, Slot: now, Ring: slices.Clone(list), Chosen: len(list) > 0}
	return r.begin(context.Background(), j, run, j.claimOf(run))
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
	if j.share != nil {
		err = r.askHosts(j, func(ctx context.Context) error { return j.share.move(ctx, cursor) })
	} else {
		err = j.move(cursor)
	}
	if err != nil {
		return fmt.Errorf("cannot set the cursor of job %q: %w", job, err)
	}
	return nil
}

// move sets the cursor, unless a run is under way.
func (j *jobControl) move(cursor regions.Cursor) error {
	j.mu.Lock()
	if j.executor != nil {
		defer j.mu.Unlock()
		return j.underWayError()
	}
	j.apply(logRecord{Cursor: &cursor})
	j.mu.Unlock()
	return j.log.flush(true)
}

// Pause keeps the schedule from running a job, over restarts, for a time or, if length is 0, until
// Resume. A run under way continues. The pause says who paused the job, and why.
func (r *Runner) Pause(job, by, note string, length time.Duration) error {
	p := &Pause{Since: r.now(), By: by, Note: note}
	if length > 0 {
		p.Until = p.Since.Add(length)
	}
	return r.setPause(job, logRecord{Pause: p}, func(ctx context.Context, s *share) error { return s.pause(ctx, by, note, length) })
}

// Resume ends a pause, if there is one.
func (r *Runner) Resume(job string) error {
	return r.setPause(job, logRecord{Resumed: r.now()}, func(ctx context.Context, s *share) error { return s.resume(ctx) })
}

// setPause records a pause or its end, or has the hosts of a job share it.
func (r *Runner) setPause(job string, one logRecord, shared func(context.Context, *share) error) error {
	j, err := r.state(job)
	if err != nil {
		return err
	}
	if j.share == nil {
		return j.commit(true, one)
	}
	if err := r.askHosts(j, func(ctx context.Context) error { return shared(ctx, j.share) }); err != nil {
		return fmt.Errorf("cannot share the pause of job %q with other hosts: %w", job, err)
	}
	return nil
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
	text, _ := r.bookmark(j, region)
	return text, nil
}

// SetBookmark replaces what the next pass of a region finds, on any host; empty removes it. On
// return it is on disk. A run is that of the pass that leaves it; an operator has none. The errors
// are ErrUnknown, ErrInvalid, those of the disk and, among hosts, those of the store.
func (r *Runner) SetBookmark(job string, region regions.Region, run, text string) error {
	j, err := r.regionOf(job, region)
	if err != nil {
		return err
	}
	if len(text) > MaxBookmark || !utf8.ValidString(text) || hasNUL(text) {
		return fmt.Errorf("%w: a bookmark is text of at most %d bytes without NUL", ErrInvalid, MaxBookmark)
	}
	if j.share != nil {
		return r.askHosts(j, func(ctx context.Context) error { return j.share.setMark(ctx, region, run, text) })
	}
	j.mu.Lock()
	at := quota.Later(r.now(), j.state.Bookmarks[region].At.Add(time.Millisecond))
	j.apply(logRecord{Marks: map[regions.Region]bookmark{region: {text, at}}})
	j.mu.Unlock()
	return j.log.flush(true)
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
