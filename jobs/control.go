package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"quotad/quota"
	"quotad/regions"
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
	past     *Run       // if none has: the last one of those before, once it was read
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
		run.Passes = append(passes, run.Passes...)
		j.state.Left = nil
		for i := range run.Passes {
			if p := &run.Passes[i]; p.Process != nil {
				j.state.Left = append(j.state.Left, *p.Process)
			}
		}
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
	for _, one := range lines {
		if one.Run != nil {
			err = errors.Join(err, j.files.add(one))
		}
	}
	err = errors.Join(err, j.files.replace(text, sync))
	for _, one := range lines {
		if one.Run == nil {
			err = errors.Join(err, j.files.add(one))
		}
	}
	return j.kept(err)
}

// kept notes whether the last write failed.
func (j *jobControl) kept(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.why = ""
	if err != nil {
		j.why = err.Error()
	}
	return err
}

// encode returns what the file is to hold. The caller holds mu.
func (j *jobControl) encode(s state) []byte {
	s.Version = stateVersion
	if e := j.executor; e != nil {
		run := e.run.head()
		for e.open < len(e.run.Passes) && e.run.Passes[e.open].Outcome != Running {
			e.open++
		}
		for _, p := range e.run.Passes[e.open:] {
			if p.Outcome == Running {
				run.Passes = append(run.Passes, p)
			}
		}
		if !run.Chosen {
			run.Ring = nil
		}
		s.Run = &run
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

// define replaces the job's definition. Slots of a new schedule count from now on, and that is on
// disk before the first of them: if no daemon runs then, it was missed.
func (j *jobControl) define(job *Job, now time.Time) error {
	j.mu.Lock()
	j.job = job
	known, schedule := j.state, job.Schedule.String()
	j.mu.Unlock()
	if known.Schedule == schedule {
		return nil
	}
	return j.set(func(s *state) { s.Since, s.Schedule = now, schedule })
}

// set changes the state and writes it. It holds even if it cannot be written.
func (j *jobControl) set(how func(*state)) error {
	j.mu.Lock()
	how(&j.state)
	j.mu.Unlock()
	return j.save(true)
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

// last returns the last run of the job since the start, under way or over, or the last one before that, or nil. The
// caller holds mu.
func (j *jobControl) last() *Run {
	switch {
	case j.executor != nil:
		return j.executor.show()
	case j.run != nil:
		return j.run.copy()
	case j.past != nil && j.past.ID != "":
		return j.past.copy()
	}
	return nil
}

// lastRun is last. It reads the run before the start, once.
func (j *jobControl) lastRun() *Run {
	past := j.readPast()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.past = cmp.Or(j.past, past)
	return j.last()
}

// readPast reads the last run before the start, unless there is nothing to read.
func (j *jobControl) readPast() *Run {
	j.mu.Lock()
	needless := j.run != nil || j.past != nil
	j.mu.Unlock()
	if needless {
		return nil
	}
	const among = 20 // of skipped slots
	runs, _ := j.files.latest(among)
	for _, run := range runs {
		if run.State != RunSkipped {
			return &run
		}
	}
	return &Run{}
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

// An executor is a run under way on this host: it launches a pass at each region of its ring, until the
// ring is through or something stops it.
type executor struct {
	runner  *Runner
	control *jobControl
	job     *Job // as it was when the run began
	run     *Run // its passes and its end may change: the job's mu guards these
	output  *runOutput
	late    int // how many slots in a row had overlapped before it
	dry     int // how many runs in a row have run dry where this one began
	open    int // the passes before this one are over; the job's mu guards it

	lacking *lacking

	// The passes to come; the job's mu guards these.
	rest    []regions.Region // of the ring, or of those that failed
	due     time.Time        // when the first of the rest is, by the monotonic clock: the other may be set
	stagger time.Duration
	again   []regions.Region       // to be served again before, after a limit has stopped them,
	times   map[regions.Region]int // and how often they were
	retries int                    // of the regions that failed, still to come
	pause   Pace                   // what the run waited for last,
	resumes time.Time              // and until when, by the monotonic clock
	busy    int                    // passes under way
	wake    chan struct{}          // signalled when one is over, or lacks nothing any more

	// More passes may begin until launching ends. Those under way are asked to end when ask ends, and
	// end at once when force does.
	launching, ask, force context.Context
	halt                  context.CancelCauseFunc // launches nothing more
	end                   context.CancelCauseFunc // launches nothing more, and asks the passes under way to end
	kill                  context.CancelCauseFunc // ends passes that were asked to end at once

	done chan struct{} // closed when the next run may begin
}

// newExecutor returns the executor of a run, with the run as it will begin. The caller holds mu.
func (r *Runner) newExecutor(j *jobControl, run *Run) *executor {
	run.Job, run.StartedAt, run.State = j.name, r.now(), RunRunning
	run.Retry = j.job.Retry
	if !run.Chosen {
		run.Ring = j.job.Regions.From(j.state.Cursor)
	}
	e := &executor{
		runner: r, control: j, job: j.job, run: run, times: map[regions.Region]int{},
		output: &runOutput{run: run.ID}, dry: j.state.Dry, late: j.state.Overlaps,
		rest: run.Ring, retries: run.Retry,
		done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	e.lacking = &lacking{none: e.wake}
	e.ask, e.end = context.WithCancelCause(context.Background())
	e.force, e.kill = context.WithCancelCause(context.Background())
	e.launching, e.halt = context.WithCancelCause(e.ask)
	begins := run.Slot
	if e.job.After != "" { // it has waited
		begins = run.StartedAt
	}
	e.due = time.Now().Add(begins.Sub(run.StartedAt))
	if run.Trigger != Manual { // an operator waits for a manual run
		e.stagger = e.job.stagger(begins, len(run.Ring))
	}
	if r.config.Hosts != nil {
		run.Host = r.config.Name
	}
	return e
}

// show returns a copy of the executor's run with what its passes under way have done until now; nil
// of no executor. The caller holds the job's mu.
func (e *executor) show() *Run {
	if e == nil {
		return nil
	}
	run := e.run.copy()
	if pause := e.pause; pause.Until.After(e.runner.now()) {
		run.Waits = &pause
	}
	for i := range run.Passes {
		p := &run.Passes[i]
		if p.Outcome != Running {
			continue
		}
		spent := e.runner.config.Tokens.spent(p.token)
		p.Units, p.Calls, p.token = spent.Units, spent.Calls, ""
		p.Tail, _ = e.output.tail(p.Region, p.from)
		if p.Process != nil {
			p.PID = p.Process.PID
		}
	}
	return run
}

// passesOver is how many passes of the run are over, or more if the run is.
func (e *executor) passesOver() int {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	if e.control.executor != e {
		return math.MaxInt
	}
	return e.run.over()
}

// doubt returns what is wrong with the clock; empty: nothing. The caller holds mu.
func (j *jobControl) doubts(now time.Time) (clock string) {
	if ahead := j.state.ahead(now); !ahead.IsZero() {
		clock = fmt.Sprintf("the clock was set back: what is recorded for %v counts no more, that is %v ahead",
			ahead.UTC().Format(time.RFC3339), ahead.Sub(now).Round(time.Second))
	}
	return clock
}
