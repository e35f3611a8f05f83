package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A jobControl is what is known of one job: its definition, its last run, and the state that its file holds.
type jobControl struct {
	name  string
	files files
	aside error // the state could not be understood; nil: it could

	mu      sync.Mutex // guards what follows and all that it points to; nothing is waited for under it
	job     *Job       // replaced, never changed
	state   state
	last    *executor // of the run that began last, under way or over; nil: none has since the start
	before  *Run      // the last one before the start; nil: it was not read yet, or there is none
	read    bool      // it was
	follows time.Time // the slot that waits for another job; zero: none does
	unkept  error     // the last write failed; nil: it did not

	endedRuns, endedPasses []runsLine // what the next write adds to the runs
}

// openJob returns the state of a job as the daemon left it, whether it stopped or was killed. A run that was under way
// shows as it will be once Start has ended it.
func openJob(c *Config, job *Job) (*jobControl, error) {
	j := &jobControl{name: job.Name, job: job, files: files{dir: c.Dir, job: job.Name}}
	var err error
	j.aside, err = j.files.load(&j.state)
	if j.before = j.state.Run.copy(); j.before != nil {
		j.before.end(c.Now().UTC(), RunInterrupted, Stop{Reason: Died})
	}
	return j, err
}

// save writes the state, which is on disk on return, and what has ended: runs before it, so that no state claims a slot,
// or is of a later run, without the lines before it, and passes after it. If this is killed in between, a pass lacks its
// line rather than its turn, and a run its end in the state: recover finds the line.
func (j *jobControl) save() error {
	j.files.writing.Lock()
	defer j.files.writing.Unlock()
	j.mu.Lock()
	next, runs, passes := j.state, j.endedRuns, j.endedPasses
	if next.Version = stateVersion; j.last.underWay() {
		next.Run = j.last.kept()
	}
	text, _ := json.Marshal(next) // nothing in it can fail
	j.endedRuns, j.endedPasses = nil, nil
	j.mu.Unlock()
	err := j.files.add(runs)
	err = errors.Join(err, j.files.replace(append(text, '\n')))
	err = errors.Join(err, j.files.add(passes))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unkept = err
	return err
}

// set changes the state and writes it. It holds even if it cannot be written.
func (j *jobControl) set(how func(*state)) error {
	j.mu.Lock()
	how(&j.state)
	j.mu.Unlock()
	return j.save()
}

// define replaces the job's definition; nil is of a job that is not configured any more: it misses nothing. Slots of a
// new schedule count from now on, and that is on disk before the first of them: if no daemon runs then, it was missed.
func (j *jobControl) define(job *Job, now time.Time) error {
	schedule := ""
	j.mu.Lock()
	if job != nil {
		j.job, schedule = job, job.Schedule.String()
	}
	known := j.state.Schedule
	j.mu.Unlock()
	if known == schedule {
		return nil
	}
	return j.set(func(s *state) { s.Since, s.Schedule = now, schedule })
}

// slot is the last one whose fate this host knows. What lies too far ahead of the clock is none. The caller holds mu.
func (j *jobControl) slot(now time.Time) time.Time {
	slot := quota.Later(notAhead(j.state.Slot, now), notAhead(j.state.Since, now))
	if s := j.state.Skips; s != nil {
		slot = quota.Later(slot, notAhead(s.LastSlot, now))
	}
	return slot
}

// underWay returns the executor of the run under way, or nil.
func (j *jobControl) underWay() *executor {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.last.underWay() {
		return nil
	}
	return j.last
}

// current returns the job's definition.
func (j *jobControl) current() *Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.job
}

// lastRun returns the last run of the job, under way or over, or nil. It reads the one before the start, once.
func (j *jobControl) lastRun() *Run {
	const among = 20 // of skipped slots
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last == nil && j.before == nil && !j.read {
		j.mu.Unlock()
		runs, _ := j.files.latest(among)
		j.mu.Lock()
		j.read = true
		if i := slices.IndexFunc(runs, func(r Run) bool { return r.State != RunSkipped }); i >= 0 && j.before == nil {
			j.before = &runs[i]
		}
	}
	if j.last != nil {
		return j.last.show()
	}
	return j.before.copy()
}

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
	done, err := r.enter()
	if err != nil {
		return Run{}, err
	}
	defer done()
	return r.begin(j, Run{Trigger: Manual, By: by, Slot: r.now(), Ring: slices.Clone(list), Chosen: len(list) > 0})
}

// StopRun ends the pass of a run under way and launches no more of it. It does
// not wait for that. The error is ErrUnknown if no such run is under way.
func (r *Runner) StopRun(id string) error {
	e := r.executorOf(id)
	if e == nil || e.control.underWay() != e {
		return fmt.Errorf("run %q: %w among those under way", id, ErrUnknown)
	}
	e.stop(ErrOperator)
	return nil
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
	var before state
	err = j.set(func(s *state) {
		if before = *s; p == nil && s.Pause != nil {
			s.Good = now // no good run was expected meanwhile
		}
		s.Pause = p
	})
	if err != nil { // it does not hold, nor will it after a restart
		_ = j.set(func(s *state) { s.Pause, s.Good = before.Pause, before.Good })
	}
	return err
}
