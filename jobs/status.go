package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A Status is the status of a job, as the API sends it. Its slices and maps must not be changed.
type Status struct {
	Name       string                 `json:"name"`
	Credential string                 `json:"credential"`
	Schedule   string                 `json:"schedule"` // "every 30m", "cron 0 9 * * * Europe/Berlin"
	Regions    regions.Ring           `json:"regions"`  // in the order of the ring
	Expects    map[string]quota.Units `json:"expects,omitempty"`
	UseReserve bool                   `json:"use_reserve,omitempty"`
	Cursor     regions.Cursor         `json:"cursor"`                // where the next run begins
	Next       time.Time              `json:"next_run,omitzero"`     // its next slot that is not paused; zero if none comes
	Pause      *Pause                 `json:"pause,omitempty"`       // nil unless it is paused
	After      string                 `json:"after,omitempty"`       // the job that it runs after; empty: none
	Follows    time.Time              `json:"follows,omitzero"`      // the slot that waits for that job; zero: none does
	Due        time.Time              `json:"good_run_due,omitzero"` // without a good run until then, the job fails; zero: none is expected
	Last       *Run                   `json:"last_run,omitempty"`    // its last run, under way or over; nil if there was none
	Skips      *Run                   `json:"skipped,omitempty"`     // the slots since that began that did not become a run; nil if there were none
	Failing    []Failing              `json:"failing,omitempty"`
	// Overlaps are slots in a row that were skipped because a run was under way, with no run between that was in time.
	Overlaps int       `json:"overlaps,omitempty"`
	Short    *Shortage `json:"short,omitempty"`    // nil: its last run here was not short of units
	NotKept  string    `json:"not_kept,omitempty"` // why what happened may be forgotten; empty: it is on disk
	Hosts    string    `json:"hosts,omitempty"`    // what is wrong with the host that it names
	Aside    string    `json:"aside,omitempty"`    // which file of it could not be understood
	Host     string    `json:"host,omitempty"`     // which other host runs it by its schedule; empty: this one, or none does
}

// HasRegions reports whether the passes of a job have regions.
func (s *Status) HasRegions() bool { return s.Regions[0] != regions.None }

// Status returns the status of a job, or, if job is empty, of every one in the order of configuration.
func (r *Runner) Status(job string) ([]Status, error) {
	list, err := r.listed(job)
	if err != nil {
		return nil, err
	}
	all := make([]Status, len(list))
	for i, j := range list {
		now := r.now()
		all[i] = j.status(now)
		if all[i].Host, all[i].Hosts = r.elsewhere(j.current(), now); all[i].Host != "" {
			all[i].Due = time.Time{} // that host knows
		}
	}
	return all, nil
}

func (j *jobControl) status(now time.Time) Status {
	last := j.lastRun()
	j.mu.Lock()
	defer j.mu.Unlock()
	s := Status{
		Name: j.name, Credential: j.job.Credential, Schedule: j.job.Schedule.String(), Regions: j.job.Regions,
		Expects: j.job.Expects, UseReserve: j.job.UseReserve, After: j.job.After, Follows: j.follows,
		Cursor: j.state.Cursor, Next: j.state.Pause.Next(j.job.Schedule, now), Due: j.due(now),
		Last: last, Skips: j.state.Skips.copy(), Overlaps: j.state.Overlaps, Short: j.state.Short,
		NotKept: text(j.unkept), Aside: text(j.aside),
	}
	s.Failing = slices.DeleteFunc(slices.Clone(j.state.Bad), func(f Failing) bool { return !slices.Contains(j.job.Regions, f.Region) })
	if j.state.Schedule == "" {
		s.Schedule, s.Next = "removed", time.Time{}
	}
	if ring := j.job.Regions.From(s.Cursor); len(ring) > 0 {
		s.Cursor = regions.Cursor(ring[0])
	}
	if j.state.Pause.Active(now) {
		s.Pause = j.state.Pause
	}
	return s
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// due returns until when a scheduled job has a good run to end: for three periods, and 26 hours at least, from the last
// one, from when the job got its schedule, or from the end of its pause. Zero: none is expected. The caller holds mu.
func (j *jobControl) due(now time.Time) time.Time {
	const periods, least = 3, 26 * time.Hour
	since := quota.Later(notAhead(j.state.Good, now), notAhead(j.state.Since, now))
	if p := j.state.Pause; p != nil {
		if p.Until.IsZero() {
			return time.Time{}
		}
		since = quota.Later(since, p.Until)
	}
	late, slot := since.Sub(Latest(j.job.Schedule, since)), since // how late in its period
	for range periods {
		if slot = j.job.Schedule.Next(slot); slot.IsZero() {
			return slot
		}
	}
	return quota.Later(since.Add(least), slot.Add(min(late, slot.Sub(since))))
}

// Runs returns up to n runs of a job, or of all jobs if job is empty, and the slots that did not
// become one, the latest first. Those of a job are in the order in which they began.
func (r *Runner) Runs(job string, n int) (runs []Run, err error) {
	list, err := r.listed(job)
	if err != nil {
		return nil, err
	}
	for _, j := range list {
		of, err := j.runs(n)
		if err != nil {
			return nil, err
		}
		runs = append(runs, of...)
	}
	if len(list) > 1 {
		slices.SortStableFunc(runs, func(a, b Run) int { return strings.Compare(b.ID, a.ID) })
	}
	return runs[:min(n, len(runs))], nil
}

// runs returns the last n runs of the job.
func (j *jobControl) runs(n int) ([]Run, error) {
	past, err := j.files.latest(n)
	if err != nil {
		return nil, err
	}
	if last := j.lastRun(); last != nil { // it may be under way, or the disk full
		if i := slices.IndexFunc(past, func(run Run) bool { return run.ID == last.ID }); i >= 0 {
			past[i] = *last
		} else {
			past = append([]Run{*last}, past...)[:min(n, len(past)+1)]
		}
	}
	return past, nil
}

// RunOf returns the run of that id, whether it is under way or over.
func (r *Runner) RunOf(id string) (Run, error) {
	all, _ := r.known()
	for _, j := range all {
		run, err := j.files.find(id)
		if err != nil {
			return Run{}, err
		}
		if last := j.lastRun(); last != nil && last.ID == id {
			ended := run.Passes // with what they wrote
			run = *last
			for _, p := range ended {
				run.put(p)
			}
		}
		if run.State != "" {
			return run, nil
		}
	}
	return Run{}, fmt.Errorf("run %q: %w", id, ErrUnknown)
}

// A Progress is a run, and what its passes have written since the caller asked before.
type Progress struct {
	Run
	Output  []OutputLine `json:"output,omitempty"`
	Written int          `json:"written,omitempty"` // lines until now
}

// AwaitRun is RunOf as soon as more than ended passes of the run are over, its passes have written more than written
// lines, or it is over, or ctx ends; written below 0: without lines.
func (r *Runner) AwaitRun(ctx context.Context, id string, ended, written int) (Progress, error) {
	const often = 100 * time.Millisecond
	e := r.executorOf(id)
	for e != nil && e.passesOver() <= ended && (written < 0 || e.output.count() <= written) && quota.Sleep(ctx, often) {
	}
	run, err := r.RunOf(id)
	progress := Progress{Run: run}
	if written >= 0 && e != nil {
		progress.Output, progress.Written = e.output.after(written)
	}
	return progress, err
}

// executorOf returns the executor of a run that is the last one of its job since the start, or nil.
func (r *Runner) executorOf(id string) *executor {
	all, _ := r.known()
	for _, j := range all {
		j.mu.Lock()
		e := j.last
		j.mu.Unlock()
		if e != nil && e.run.ID == id {
			return e
		}
	}
	return nil
}

// A JobState is the state of a job: what a plan goes by.
type JobState struct {
	*Job            // with what it expects, or what its recent passes that ended well made; must not be changed
	Measured bool   // it was measured
	Pause    *Pause // nil unless it is paused
	Runs     bool   // a run of it is under way on this host
}

// JobStates returns the state of every job, in the order of configuration.
func (r *Runner) JobStates() (list []JobState) {
	states, _ := r.listed("")
	for _, j := range states {
		j.mu.Lock()
		s := JobState{j.job, len(j.job.Expects) == 0 && len(j.state.Took) > 0, j.state.Pause, j.last.underWay()}
		if s.Measured {
			job := *j.job
			job.Expects, s.Job = mean(j.state.Took), &job
		}
		j.mu.Unlock()
		list = append(list, s)
	}
	return list
}
