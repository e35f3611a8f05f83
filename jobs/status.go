package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"quotad/regions"
)

// A Status is how a job is.
type Status struct {
	Job    *Job           // must not be changed
	Cursor regions.Cursor // where the next run begins
	Next   time.Time      // its next slot that is not paused; zero if none comes
	Pause  *Pause         // nil unless it is paused
	Last   *Run           // its last run, under way or over; nil if there was none
	Skips  *Run           // the ticks skipped since that began; nil if there were none
}

// Status returns how a job is, or, if job is empty, how every one is, in the
// order of configuration.
func (r *Runner) Status(job string) ([]Status, error) {
	desks, err := r.some(job)
	if err != nil {
		return nil, err
	}
	r.refreshAll(desks)
	now := r.now()
	list := make([]Status, 0, len(desks))
	for _, d := range desks {
		list = append(list, d.status(now))
	}
	return list, nil
}

func (d *desk) status(now time.Time) Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Status{Job: d.job, Cursor: d.memory.Cursor, Next: d.memory.Pause.next(d.job.Schedule, now)}
	if ring := d.job.Regions.From(s.Cursor); len(ring) > 0 {
		s.Cursor = regions.Cursor(ring[0])
	}
	if d.memory.Pause.active(now) {
		pause := *d.memory.Pause
		s.Pause = &pause
	}
	s.Last, s.Skips = d.latest()
	return s
}

// Runs returns up to most runs of a job, or of all jobs if job is empty, and the
// ticks that did not become one, the latest first.
func (r *Runner) Runs(job string, most int) ([]Run, error) {
	desks, err := r.some(job)
	if err != nil {
		return nil, err
	}
	r.refreshAll(desks)
	var runs []Run
	for _, d := range desks {
		past, err := d.runs(r.now())
		if err != nil {
			return nil, err
		}
		runs = append(runs, past...)
	}
	slices.SortStableFunc(runs, func(a, b Run) int { return cmp.Compare(b.ID, a.ID) })
	return runs[:min(most, len(runs))], nil
}

// RunOf returns the run of that id, whether it is under way or over.
func (r *Runner) RunOf(id string) (Run, error) {
	desks := r.all()
	r.refreshAll(desks)
	for _, d := range desks {
		runs, err := d.runs(r.now())
		if err != nil {
			return Run{}, err
		}
		if i := slices.IndexFunc(runs, func(run Run) bool { return run.ID == id }); i >= 0 {
			return runs[i], nil
		}
	}
	return Run{}, fmt.Errorf("run %q: %w", id, ErrUnknown)
}

// runs returns every run of the job that is known, once each.
func (d *desk) runs(now time.Time) ([]Run, error) {
	past, err := d.history.read()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	past = slices.Concat(d.shared.known(), past)
	for _, run := range []*Run{d.memory.Last, d.memory.Skips} {
		if run != nil {
			past = append(past, run.clone())
		}
	}
	d.mu.Unlock()
	// The same run may stand there twice; what was written later knows more.
	known := make(map[string]bool, len(past))
	slices.Reverse(past)
	return slices.DeleteFunc(past, func(run Run) bool {
		again := known[run.ID]
		known[run.ID] = true
		return again || run.StartedAt.Before(now.Add(-keptFor))
	}), nil
}
