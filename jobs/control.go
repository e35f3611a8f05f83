package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"quotad/quota"
)

// A jobControl is what is known of one job: its definition, its last run, and
// the state that its file holds.
type jobControl struct {
	name  string
	files files

	mu       sync.Mutex // guards what follows and all that it points to; nothing is waited for under it
	job      *Job       // replaced, never changed
	state    state
	run      *Run       // that began last, under way or over; nil: none has since the start
	past     bool       // the run is one before the start, as the file has it, or there is none
	executor *executor  // of the run under way, or nil
	output   *runOutput // of the last run since the start; nil before it
	follows  time.Time  // the slot that waits for another job; zero: none does
	died     *Run       // that a killed daemon left open, until it has been reported
	unsaved  error      // what is wrong with the files, until that has been reported
	aside    string     // which of them could not be understood; empty: none
	why      string     // the last write failed; empty: it did not
}

// openJob returns the state of a job as the daemon left it, whether it stopped or
// was killed.
func openJob(c *Config, job *Job) (*jobControl, error) {
	j := &jobControl{name: job.Name, job: job, files: files{dir: c.Dir, job: job.Name}}
	aside, err := j.files.load(&j.state)
	if err != nil {
		return nil, err
	}
	if aside != nil {
		j.aside = aside.Error()
	}
	if j.state.Run != nil {
		err = j.recover(c.Now().UTC())
	}
	j.unsaved = errors.Join(aside, err)
	return j, nil
}

// recover ends the run during which the daemon was killed: nothing of it runs any more, and no
// region stays running. Of a run whose end is in NAME.runs, only that was not in the state yet.
func (j *jobControl) recover(now time.Time) error {
	var lines []runsLine
	run := j.state.Run
	known, passes, err := j.files.find(run.ID)
	if known.ID == "" {
		if run.Ring == nil {
			run.Ring = j.job.Regions.From(j.state.From)
		}
		j.state.Left = nil
		for _, p := range run.Passes {
			if p.Process != nil {
				j.state.Left = append(j.state.Left, *p.Process)
			}
		}
		run.Passes = append(passes, run.Passes...)
		run.end(now, RunInterrupted, Stop{Reason: Died})
		for i := range run.Passes[len(passes):] {
			lines = append(lines, runsLine{Of: run.ID, Pass: &run.Passes[len(passes)+i]})
		}
		lines = append(lines, runsLine{Run: new(run.head())})
		j.died, j.run = run.copy(), run
		j.state.end(run)
	}
	j.state.Run = nil
	return errors.Join(err, j.save(true, lines...))
}

// save writes the state, and lines of what has ended. With sync the state is on disk on return. If this is killed in
// between, a pass lacks its line rather than its turn, and a run its end in the state: recover finds the line.
func (j *jobControl) save(sync bool, lines ...runsLine) (err error) {
	j.files.writing.Lock()
	defer j.files.writing.Unlock()
	j.mu.Lock()
	text := j.encode(j.state)
	j.mu.Unlock()
	add := func(runs bool) {
		for _, one := range lines {
			if (one.Run != nil) == runs {
				err = errors.Join(err, j.files.add(one))
			}
		}
	}
	add(true)
	err = errors.Join(err, j.files.replace(text, sync))
	add(false)
	return j.kept(err)
}

// kept notes whether the last write failed.
func (j *jobControl) kept(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.why = ""; err != nil {
		j.why = err.Error()
	}
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
	if err := j.kept(j.files.replace(text, true)); err != nil {
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
	return j.save(true)
}

// define replaces the job's definition. Slots of a new schedule count from now on, and that is on
// disk before the first of them: if no daemon runs then, it was missed.
func (j *jobControl) define(job *Job, now time.Time) error {
	j.mu.Lock()
	j.job = job
	known, schedule := j.state.Schedule, job.Schedule.String()
	j.mu.Unlock()
	if known == schedule {
		return nil
	}
	return j.set(func(s *state) { s.Since, s.Schedule = now, schedule })
}

// retire records that the job is not configured any more: it misses nothing.
func (j *jobControl) retire() error {
	j.mu.Lock()
	configured := j.state.Schedule != ""
	j.mu.Unlock()
	if !configured {
		return nil
	}
	return j.set(func(s *state) { s.Schedule = "" })
}

// slot is the last one whose fate this host knows. What lies too far ahead of the clock is none. The
// caller holds mu.
func (j *jobControl) slot(now time.Time) time.Time {
	slot := quota.Later(notAhead(j.state.Slot, now), notAhead(j.state.Since, now))
	if s := j.state.Skips; s != nil {
		slot = quota.Later(slot, notAhead(s.LastSlot, now))
	}
	return slot
}

// taken returns the last slot that became a run, or was skipped.
func (j *jobControl) taken(now time.Time) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return notAhead(j.state.Slot, now)
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
		for i := 0; i < len(runs) && j.run == nil; i++ {
			if runs[i].State != RunSkipped {
				j.run = &runs[i]
			}
		}
	}
	if j.executor != nil {
		return j.executor.show()
	}
	return j.run.copy()
}

// endLeftovers ends the processes that a killed daemon left running. Until that is done, each start does.
func (j *jobControl) endLeftovers(ctx context.Context, end func(context.Context, Identity, time.Duration) (bool, error)) error {
	j.mu.Lock()
	left := j.state.Left
	j.mu.Unlock()
	var trouble []error
	for _, id := range left {
		if _, err := end(ctx, id, KillGrace); err != nil {
			trouble = append(trouble, fmt.Errorf("a daemon that was killed left a process: %w", err))
		}
	}
	if len(left) > 0 && len(trouble) == 0 {
		return j.set(func(s *state) { s.Left = nil })
	}
	return errors.Join(trouble...)
}
