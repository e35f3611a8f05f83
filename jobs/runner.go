package jobs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"quotad/quota"
)

// A Config is what a Runner is made of. Every field is needed, unless its comment says what its zero value means.
type Config struct {
	Jobs     []*Job // valid ones
	Gate     Gate
	Launcher Launcher
	Tokens   *Tokens
	Dir      string // where the files of the jobs are kept; nothing else writes to it
	Socket   string // where passes acquire
	// Proxy returns the address by which the pass of a run token calls the upstream of a
	// credential; empty where there is none. Nil: there is none of any.
	Proxy   func(credential, token string) string
	Environ []string // the daemon's own environment; passes get an allow-list of it. Nil: none

	// OnEvent is called with each event, see RunChanged and the others. A job's next step waits for it, and a pass with
	// each line. Many goroutines call it at the same time, but one at a time about one pass. Nil: events are dropped.
	OnEvent func(event any)

	// EndLeftover ends a process that a killed daemon left running, with its family: TERM, and KILL after the grace. It
	// leaves alone a process that only has the same number. It returns false if there was nothing to end.
	EndLeftover func(ctx context.Context, id Identity, grace time.Duration) (ended bool, err error)

	Now func() time.Time // the wall clock

	Name string // of this host, by which jobs name it
	// Hosts returns the daemons on the ledger when it named them last, and how long ago that was; known is false
	// if it has not yet. Nil: this host is alone.
	Hosts func() (list []Daemon, age time.Duration, known bool)
}

// Config.OnEvent is called with one of these. Their contents are the callee's own.
type (
	// RunChanged means that a run has begun, has ended, or was skipped. Its State says which.
	RunChanged struct {
		Run  Run
		Next time.Time // of one that is over: when the schedule has the next one; zero: unknown
	}

	// PassChanged means that a pass has begun, has ended, or was not launched. The run is without its passes.
	PassChanged struct {
		Run        Run
		Pass       Pass
		Credential string // of its job; empty of a pass that was found dead at the start
	}

	// GateRefused means that the gate kept a pass from beginning.
	GateRefused struct {
		Credential string
		Decision   quota.Decision
	}

	// Output is a line that a pass has written.
	Output struct {
		Job, Run string
		Pass     Pass
		Line     Line
	}

	// Trouble means that something of a job is not as it should be, such as a file that cannot be written.
	Trouble struct {
		Job string
		Err error
	}
)

// A Gate decides whether calls could be afforded; a quota.Service is one.
type Gate interface {
	// Peek decides what would become of a job's calls, after those that others are about to make,
	// with or without the reserve. It moves nothing. An error means that this is unknown.
	Peek(ctx context.Context, credential string, own quota.Calls, others []quota.Calls, useReserve bool) (quota.Decision, error)
	// Walk reads the log of a credential from its newest entry back to an instant, or until visit returns false.
	Walk(ctx context.Context, credential string, since time.Time, visit func(quota.Entry) bool) error
}

// A Runner runs jobs. It owns their cursors and histories. Any number of goroutines may use it at the same time.
type Runner struct {
	config Config
	gate   chan struct{} // holds one while a pass asks the gate

	// Nothing begins once stopping has ended; passes are asked to end when asked does, and killed when forced does.
	stopping, asked, forced context.Context
	stop, ask, force        context.CancelCauseFunc
	background              sync.WaitGroup // what Stop waits for; nothing joins it once stopping has ended

	mu         sync.RWMutex  // guards what follows, and the end of stopping
	jobs       []*jobControl // as configured, and then those that were removed: a run of theirs may be under way
	configured int           // how many are
}

// Open returns a runner that continues where the last one left off. Nothing runs before Start or Tick.
func Open(c Config) (*Runner, error) {
	if err := os.MkdirAll(c.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("cannot make state directory: %w", err)
	}
	if c.OnEvent == nil {
		c.OnEvent = func(any) {}
	}
	r := &Runner{config: c, gate: make(chan struct{}, 1)}
	r.stopping, r.stop = context.WithCancelCause(context.Background())
	r.asked, r.ask = context.WithCancelCause(context.Background())
	r.forced, r.force = context.WithCancelCause(context.Background())
	files, err := filepath.Glob(filepath.Join(c.Dir, "*"+stateEnding))
	if err != nil {
		return nil, fmt.Errorf("cannot look through state directory %q: %w", c.Dir, err)
	}
	for _, path := range files { // those of jobs that were removed may have left processes running
		name := strings.TrimSuffix(filepath.Base(path), stateEnding)
		if j, err := openJob(&c, &Job{Name: name, Schedule: Unscheduled{}}); err == nil {
			r.jobs = append(r.jobs, j)
		}
	}
	return r, r.SetJobs(c.Jobs)
}

// SetJobs replaces the jobs, which are valid and of different names. Runs under way finish as they began, also those of
// jobs that were removed. A job keeps its cursor, its pause and its history by its name. After an error nothing has
// changed. One call is made at a time.
func (r *Runner) SetJobs(list []*Job) error {
	known, _ := r.known()
	var next, opened []*jobControl
	for _, job := range list {
		i := slices.IndexFunc(known, func(j *jobControl) bool { return j.name == job.Name })
		if i >= 0 {
			next = append(next, known[i])
			continue
		}
		j, err := openJob(&r.config, job)
		if err != nil {
			return fmt.Errorf("job %q: %w", job.Name, err)
		}
		next, opened = append(next, j), append(opened, j)
	}
	for _, j := range known {
		if !slices.Contains(next, j) {
			next = append(next, j)
		}
	}
	for i, j := range next {
		var job *Job
		if i < len(list) {
			job = list[i]
		}
		r.trouble(j.name, j.define(job, r.now()))
	}
	r.mu.Lock()
	r.jobs, r.configured = next, len(list)
	r.mu.Unlock()
	for _, j := range opened {
		if done, err := r.enter(); err == nil {
			go func() {
				defer done()
				r.recover(r.stopping, j)
			}()
		}
	}
	return nil
}

// Start ends what a killed daemon left running, which takes KillGrace at most. What was under way then is recorded as
// interrupted, and its regions keep their turn. Then it makes up for what was missed while no daemon was running, as far
// as the jobs want that, and begins the runs at start. It is called once, before the first Tick, which is for a later
// slot.
func (r *Runner) Start(ctx context.Context) {
	var recovered sync.WaitGroup
	all, n := r.known()
	for _, j := range all {
		recovered.Go(func() { r.recover(ctx, j) })
	}
	recovered.Wait()
	for _, j := range all[:n] {
		r.start(j)
	}
}

// recover ends the run during which the daemon was killed: its processes, its passes, with what the ledger says that
// they were granted, if it can be asked, and the run. Of a run whose end is in NAME.runs, only that was not in the state
// yet.
func (r *Runner) recover(ctx context.Context, j *jobControl) {
	r.trouble(j.name, j.aside)
	j.mu.Lock()
	run, from := j.state.Run.copy(), j.state.From // the run is in the way of others until this is done
	j.mu.Unlock()
	if run == nil {
		return
	}
	known, err := j.files.find(run.ID)
	r.trouble(j.name, err)
	var passes []runsLine
	died := known.State == ""
	if died {
		r.endLeftovers(ctx, run)
		if ctx.Err() != nil { // quotad stops again: the next start ends them, as the state still names them
			return
		}
		if run.Ring == nil {
			run.Ring = j.current().Regions.From(from)
		}
		run.Passes = append(known.Passes, run.Passes...)
		run.end(r.now(), RunInterrupted, Stop{Reason: Died})
		for i := len(known.Passes); i < len(run.Passes); i++ {
			r.recount(ctx, j.current(), &run.Passes[i])
			passes = append(passes, runsLine{Of: run.ID, Pass: &run.Passes[i]})
		}
	}
	j.mu.Lock()
	j.state.Run, j.before = nil, nil
	if died {
		j.state.end(run)
		j.before = run.copy()
		j.endedRuns, j.endedPasses = append(j.endedRuns, runsLine{Run: new(run.head())}), append(j.endedPasses, passes...)
	}
	j.mu.Unlock()
	r.trouble(j.name, j.save())
	for _, one := range passes {
		r.config.OnEvent(PassChanged{Run: run.head(), Pass: *one.Pass})
	}
	if died {
		r.changed(j.current(), run)
	}
}

// endLeftovers ends the processes that a killed daemon left running.
func (r *Runner) endLeftovers(ctx context.Context, run *Run) {
	for _, p := range run.Passes {
		if p.Process == nil {
			continue
		}
		if _, err := r.config.EndLeftover(ctx, *p.Process, KillGrace); err != nil {
			r.trouble(run.Job, fmt.Errorf("a daemon that was killed left a process: %w", err))
		}
	}
}

// recount sets what a pass was granted to what the ledger says, if it can be asked soon.
func (r *Runner) recount(ctx context.Context, job *Job, p *Pass) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	spent := Spent{Made: Made{}}
	err := r.config.Gate.Walk(ctx, job.Credential, p.StartedAt, func(e quota.Entry) bool {
		if g, ok := e.Grant(); ok && e.By == job.Name && e.Region == string(p.Region) {
			spent.Units += quota.Max(e.Charges)
			spent.Made[g.Operation] += g.Count
			spent.Calls++
		}
		return true
	})
	if err == nil {
		p.Spent = spent
	}
}

// Stop begins no further run or pass, and waits until those under way are over and recorded. Passes may end by
// themselves until ask ends; then they are asked to end, and killed after KillGrace or as soon as force ends, which
// is not before ask. Regions whose pass was interrupted keep their turn.
func (r *Runner) Stop(ask, force context.Context) {
	r.mu.Lock()
	r.stop(ErrShutdown)
	r.mu.Unlock()
	defer context.AfterFunc(ask, func() { r.ask(ErrShutdown) })()
	defer context.AfterFunc(force, func() { r.force(ErrShutdown) })()
	r.background.Wait()
}

// now reads the wall clock, in UTC like every time that leaves this package.
func (r *Runner) now() time.Time { return r.config.Now().UTC() }

// changed reports a run of a job.
func (r *Runner) changed(j *Job, run *Run) {
	event := RunChanged{Run: *run.copy()}
	if run.State != RunRunning {
		event.Next = j.Schedule.Next(r.now())
	}
	r.config.OnEvent(event)
}

func (r *Runner) trouble(job string, err error) {
	if err != nil {
		r.config.OnEvent(Trouble{job, err})
	}
}

// enter has Stop wait until done is called, unless the runner is stopping.
func (r *Runner) enter() (done func(), err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.stopping.Err() != nil {
		return nil, ErrStopping
	}
	r.background.Add(1)
	return r.background.Done, nil
}

// known returns all jobs: the configured ones, in their order, and those that were removed. The list must not
// be changed.
func (r *Runner) known() (list []*jobControl, configured int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.jobs, r.configured
}

// state returns a job that is configured.
func (r *Runner) state(job string) (*jobControl, error) {
	list, n := r.known()
	if i := slices.IndexFunc(list[:n], func(j *jobControl) bool { return j.name == job }); i >= 0 {
		return list[i], nil
	}
	return nil, fmt.Errorf("job %q: %w", job, ErrUnknown)
}

// listed returns a job or, if it has no name, all: those that are configured, in their order, and then those that were
// removed while a run of theirs is under way.
func (r *Runner) listed(job string) (list []*jobControl, err error) {
	all, n := r.known()
	for i, j := range all {
		if (job == "" || job == j.name) && (i < n || j.underWay() != nil) {
			list = append(list, j)
		}
	}
	if job != "" && len(list) == 0 {
		return nil, fmt.Errorf("job %q: %w", job, ErrUnknown)
	}
	return list, nil
}

// Spending returns the ids of the runs under way that spend from a credential, also those of jobs that were removed or
// spend from another one by now.
func (r *Runner) Spending(credential string) (runs []string) {
	all, _ := r.known()
	for _, j := range all {
		if e := j.underWay(); e != nil && e.job.Credential == credential {
			runs = append(runs, e.run.ID)
		}
	}
	return runs
}
