package jobs

import (
	"errors"
	"slices"
	"sync"
	"time"

	"quotad/quota"
)

// A jobControl is what is known of one job: its definition, its last run, and the state that its file holds.
type jobControl struct {
	name  string
	files files
	aside error // the state could not be understood; nil: it could

	mu       sync.Mutex // guards what follows and all that it points to; nothing is waited for under it
	job      *Job       // replaced, never changed
	state    state
	run      *Run       // that began last, under way or over; nil: none has since the start
	past     bool       // the run is one before the start, as the file has it, or there is none
	executor *executor  // of the run under way, or nil
	output   *runOutput // of the last run since the start; nil before it
	follows  time.Time  // the slot that waits for another job; zero: none does
	unkept   error      // the last write failed; nil: it did not
}

// openJob returns the state of a job as the daemon left it, whether it stopped or was killed. A run that was under way
// shows as it will be once Start has ended it.
func openJob(c *Config, job *Job) (*jobControl, error) {
	j := &jobControl{name: job.Name, job: job, files: files{dir: c.Dir, job: job.Name}}
	var err error
	j.aside, err = j.files.load(&j.state)
	if j.run = j.state.Run.copy(); j.run != nil {
		j.run.end(c.Now().UTC(), RunInterrupted, Stop{Reason: Died})
	}
	return j, err
}

// save writes the state, which is on disk on return, and lines of what has ended. If this is killed in between, a pass
// lacks its line rather than its turn, and a run its end in the state: recover finds the line.
func (j *jobControl) save(lines ...runsLine) error {
	j.files.writing.Lock()
	defer j.files.writing.Unlock()
	j.mu.Lock()
	text := j.encode(j.state)
	j.mu.Unlock()
	var wrong []error
	add := func(runs bool) {
		for _, one := range lines {
			if (one.Run != nil) == runs {
				wrong = append(wrong, j.files.add(one))
			}
		}
	}
	add(true)
	wrong = append(wrong, j.files.replace(text))
	add(false)
	return j.kept(errors.Join(wrong...))
}

// kept records whether the last write failed.
func (j *jobControl) kept(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unkept = err
	return err
}

// encode returns what the file is to hold. The caller holds mu.
func (j *jobControl) encode(s state) []byte {
	s.Version = stateVersion
	if e := j.executor; e != nil {
		s.Run = e.underWay()
	}
	return append(encoded(s), '\n')
}

// change changes the state as an operator wants. It is on disk before it holds.
func (j *jobControl) change(how func(*state)) error {
	j.files.writing.Lock()
	defer j.files.writing.Unlock()
	j.mu.Lock()
	next := j.state
	how(&next)
	text := j.encode(next)
	j.mu.Unlock()
	if err := j.kept(j.files.replace(text)); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	how(&j.state)
	return nil
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
	return j.executor
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
	if j.run == nil && !j.past {
		j.mu.Unlock()
		runs, _ := j.files.latest(among)
		j.mu.Lock()
		j.past = true
		i := slices.IndexFunc(runs, func(r Run) bool { return r.State != RunSkipped })
		if i >= 0 && j.run == nil {
			j.run = &runs[i]
		}
	}
	if j.executor != nil {
		return j.executor.show()
	}
	return j.run.copy()
}
