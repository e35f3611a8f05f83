package jobs

import (
	"context"
	"fmt"
	"maps"
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

// A Gate decides whether calls could be afforded; a quota.Service is one.
type Gate interface {
	// Peek decides what would become of a job's calls, after those that others are about to make,
	// with or without the reserve. It moves nothing. An error means that this is unknown.
	Peek(ctx context.Context, credential string, own quota.Calls, others []quota.Calls, useReserve bool) (quota.Decision, error)
	// Spent returns what a job was granted since an instant, by region.
	Spent(ctx context.Context, credential, job string, since time.Time) (map[string]quota.Spent, error)
}

// A Runner runs jobs. It owns their cursors and histories. Any number of goroutines may use it at the same time.
type Runner struct {
	config      Config
	gate        chan struct{} // holds one while a pass asks the gate
	stopping    context.Context
	beginNoMore context.CancelFunc // ends stopping
	background  sync.WaitGroup     // for what Stop waits for; nothing joins it once stopping has ended

	mu     sync.RWMutex           // guards what follows, and the end of stopping
	states map[string]*jobControl // also of jobs that were removed: a run of theirs may be under way
	jobs   []*jobControl          // as configured
}

// Open returns a runner that continues where the last one left off. Nothing runs before Start or Tick.
func Open(c Config) (*Runner, error) {
	if err := os.MkdirAll(c.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("cannot make state directory: %w", err)
	}
	if c.OnEvent == nil {
		c.OnEvent = func(any) {}
	}
	r := &Runner{config: c, gate: make(chan struct{}, 1), states: make(map[string]*jobControl, len(c.Jobs))}
	r.stopping, r.beginNoMore = context.WithCancel(context.Background())
	files, err := filepath.Glob(filepath.Join(c.Dir, "*"+stateEnding))
	if err != nil {
		return nil, fmt.Errorf("cannot look through state directory %q: %w", c.Dir, err)
	}
	for _, path := range files { // those of jobs that were removed may have left processes running
		name := strings.TrimSuffix(filepath.Base(path), stateEnding)
		if j, err := openJob(&c, &Job{Name: name, Schedule: Unscheduled{}}); err == nil {
			r.states[name] = j
		}
	}
	return r, r.SetJobs(c.Jobs)
}

// SetJobs replaces the jobs, which are valid. Runs under way finish as they
// began, also those of jobs that were removed. A job keeps its cursor, its pause and
// its history by its name. After an error nothing has changed. One call is made at a time.
func (r *Runner) SetJobs(list []*Job) error {
	configured := make([]*jobControl, len(list))
	for i, job := range list {
		if slices.ContainsFunc(list[:i], func(other *Job) bool { return other.Name == job.Name }) {
			return fmt.Errorf("job %q is defined twice", job.Name)
		}
		r.mu.RLock()
		j := r.states[job.Name]
		r.mu.RUnlock()
		if j == nil {
			var err error
			if j, err = openJob(&r.config, job); err != nil {
				return fmt.Errorf("job %q: %w", job.Name, err)
			}
		}
		configured[i] = j
	}
	for _, j := range r.known() {
		if !slices.Contains(configured, j) {
			r.trouble(j.name, j.define(nil, r.now()))
		}
	}
	for i, job := range list {
		r.trouble(job.Name, configured[i].define(job, r.now()))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range configured {
		r.states[j.name] = j
	}
	r.jobs = configured
	return nil
}

// Start ends what a killed daemon left running, which takes KillGrace at most. What was under way then is recorded as
// interrupted, and its regions keep their turn. Then it makes up for what was missed while no daemon was running, as far
// as the jobs want that, and begins the runs at start. It is called once, before the first Tick, which is for a later
// slot.
func (r *Runner) Start(ctx context.Context) {
	var all sync.WaitGroup
	for _, j := range r.known() {
		r.trouble(j.name, j.aside)
		all.Go(func() { r.recover(ctx, j) })
	}
	all.Wait()
	for _, j := range r.all() {
		r.start(j)
	}
}

// recover ends the run during which the daemon was killed: its processes, its passes, with what the ledger says that
// they were granted, if it can be asked, and the run. Of a run whose end is in NAME.runs, only that was not in the state
// yet.
func (r *Runner) recover(ctx context.Context, j *jobControl) {
	j.mu.Lock()
	run, from := j.state.Run.copy(), j.state.From // the run is in the way of others until this is done
	j.mu.Unlock()
	if run == nil {
		return
	}
	known, err := j.files.find(run.ID)
	r.trouble(j.name, err)
	var lines []runsLine
	if known.State == "" {
		r.endLeftovers(ctx, run)
		if ctx.Err() != nil { // quotad stops again: the next start ends them, as the state still names them
			return
		}
		if run.Ring == nil {
			run.Ring = j.current().Regions.From(from)
		}
		open := run.Passes
		run.Passes = append(known.Passes, open...)
		run.end(r.now(), RunInterrupted, Stop{Reason: Died})
		for i := range open {
			p := &run.Passes[len(known.Passes)+i]
			r.recount(ctx, j.current(), p)
			lines = append(lines, runsLine{Of: run.ID, Pass: p})
		}
		lines = append(lines, runsLine{Run: new(run.head())})
	}
	j.mu.Lock()
	j.state.Run, j.run = nil, nil
	if lines != nil {
		j.state.end(run)
		j.run = run.copy()
	}
	j.mu.Unlock()
	r.trouble(j.name, j.save(lines...))
	for _, one := range lines {
		if one.Pass != nil {
			r.config.OnEvent(PassChanged{Run: run.head(), Pass: *one.Pass})
		} else {
			r.changed(j.current(), run)
		}
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
	if spent, err := r.config.Gate.Spent(ctx, job.Credential, job.Name, p.StartedAt); err == nil {
		of := spent[string(p.Region)]
		p.Units, p.Calls, p.Made = of.Units, of.Calls, of.Made
	}
}

// Stop begins no further run or pass, and waits until those under way are over and recorded. Passes may end by
// themselves until ask ends; then they are asked to end, and killed after KillGrace or as soon as force ends, which
// is not before ask. Regions whose pass was interrupted keep their turn.
func (r *Runner) Stop(ask, force context.Context) {
	r.mu.Lock()
	r.beginNoMore()
	r.mu.Unlock()
	list := r.underWay()
	each := func(do func(*executor)) {
		for _, e := range list {
			do(e)
		}
	}
	each(func(e *executor) { e.halt(ErrShutdown) })
	defer context.AfterFunc(ask, func() { each(func(e *executor) { e.end(ErrShutdown) }) })()
	defer context.AfterFunc(force, func() { each(func(e *executor) { e.kill(ErrShutdown) }) })()
	each(func(e *executor) { <-e.done })
	r.background.Wait()              // all of it ends with stopping, and no call takes long
	for _, e := range r.underWay() { // what was about to begin then, and launches nothing
		<-e.done
	}
}

// now reads the wall clock, in UTC like every time that leaves this package.
func (r *Runner) now() time.Time { return r.config.Now().UTC() }

func (r *Runner) isStopping() bool { return r.stopping.Err() != nil }

func (r *Runner) trouble(job string, err error) {
	if err != nil {
		r.config.OnEvent(Trouble{job, err})
	}
}

// enter has Stop wait until done is called, unless the runner is stopping.
func (r *Runner) enter() (done func(), err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.isStopping() {
		return nil, ErrStopping
	}
	r.background.Add(1)
	return r.background.Done, nil
}

// state returns the state of a job that is configured.
func (r *Runner) state(job string) (*jobControl, error) { return find(r.all(), job) }

func find(list []*jobControl, job string) (*jobControl, error) {
	if i := slices.IndexFunc(list, func(j *jobControl) bool { return j.name == job }); i >= 0 {
		return list[i], nil
	}
	return nil, fmt.Errorf("job %q: %w", job, ErrUnknown)
}

// listed returns the state of a job or, if job is empty, of all in the order of configuration, and
// then of those that were removed while a run of theirs is under way.
func (r *Runner) listed(job string) ([]*jobControl, error) {
	list := slices.Clone(r.all())
	for _, e := range r.underWay() {
		if !slices.Contains(list, e.control) {
			list = append(list, e.control)
		}
	}
	if job == "" {
		return list, nil
	}
	j, err := find(list, job)
	return []*jobControl{j}, err
}

// all returns the states of the jobs in the order of configuration. The list must not be changed.
func (r *Runner) all() []*jobControl {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.jobs
}

// known returns the states of all jobs, also of those that were removed, by their names.
func (r *Runner) known() []*jobControl {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.SortedFunc(maps.Values(r.states), func(a, b *jobControl) int { return strings.Compare(a.name, b.name) })
}

// underWay returns the executors of the runs under way, of any job, by the names of the jobs.
func (r *Runner) underWay() (list []*executor) {
	for _, j := range r.known() {
		if e := j.underWay(); e != nil {
			list = append(list, e)
		}
	}
	return list
}

// Spending returns the ids of the runs under way that spend from a credential,
// by the names of their jobs, also those of jobs that were removed or spend from another one by now.
func (r *Runner) Spending(credential string) (runs []string) {
	for _, e := range r.underWay() {
		if e.job.Credential == credential {
			runs = append(runs, e.run.ID)
		}
	}
	return runs
}
