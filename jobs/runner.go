package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"quotad/regions"
)

// A Config is what a Runner is made of. Every field is needed, unless its
// comment says what its zero value means.
type Config struct {
	Jobs     []*Job // valid ones
	Gate     Gate
	Launcher Launcher
	Tokens   *Tokens
	Dir      string // where the logs of the jobs are kept; nothing else writes to it
	Socket   string // where passes acquire
	// Proxy returns the address by which the pass of a run token calls the upstream of a
	// credential; empty where there is none. Nil: there is none of any.
	Proxy   func(credential, token string) string
	Environ []string // the daemon's own environment; passes get an allow-list of it. Nil: none

	// OnEvent is called with each event, see RunChanged and the others. A job's next step
	// waits for it, so it returns soon. Many goroutines call it at the same time, but only
	// one at a time about one pass. Nil: events are dropped.
	OnEvent func(event any)

	// EndLeftover ends a process that a killed daemon left running, with its cgroup or
	// process group: TERM, and KILL after the grace. It leaves alone a process that
	// only has the same number. It returns false if there was nothing to end.
	EndLeftover func(ctx context.Context, id Identity, grace time.Duration) (ended bool, err error)

	Now func() time.Time // the wall clock

	// Store keeps a record of each job for all hosts that run it; nil: this host is alone.
	Store RecordStore
	// Host returns an id of this host that no other one has, and its name, for people. It is not called
	// on a host that is alone.
	Host func() (id, name string)
}

// A Runner runs jobs. It owns their cursors and histories. Any number of
// goroutines may use it at the same time.
type Runner struct {
	config      Config
	gate        chan struct{}  // holds one while a pass asks the gate
	reloading   sync.Mutex     // held while the jobs are replaced
	background  sync.WaitGroup // for slots that are claimed
	changed     chan struct{}  // holds one if watchSuccess is to check again
	stopping    context.Context
	beginNoMore context.CancelFunc // ends stopping
	retired     []*jobControl      // of jobs that are not configured, until Start ends what they left running

	mu     sync.RWMutex           // guards what follows, and the end of stopping
	states map[string]*jobControl // also of jobs that were removed: a run of theirs may be under way
	jobs   []*jobControl          // as configured
}

// Open returns a runner that continues where the last one left off. What was under way when
// that one was killed is recorded as interrupted, and its regions keep their turn. Nothing runs
// before Start or Tick.
func Open(c Config) (*Runner, error) {
	if err := os.MkdirAll(c.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("cannot make state directory: %w", err)
	}
	if err := regions.CleanUp(c.Dir); err != nil {
		return nil, err
	}
	if c.OnEvent == nil {
		c.OnEvent = func(any) {}
	}
	if c.Proxy == nil {
		c.Proxy = func(string, string) string { return "" }
	}
	r := &Runner{config: c, gate: make(chan struct{}, 1), changed: make(chan struct{}, 1), states: make(map[string]*jobControl, len(c.Jobs))}
	stopping, stop := context.WithCancel(context.Background())
	r.stopping, r.beginNoMore = stopping, func() {
		r.mu.Lock() // no background goroutine begins meanwhile
		defer r.mu.Unlock()
		stop()
	}
	if err := r.SetJobs(c.Jobs); err != nil {
		return nil, err
	}
	return r, r.retire()
}

// retiredGrace is the KillGrace of what a job left running that is not configured any more.
const retiredGrace = 10 * time.Second

// retire records for the jobs that are not configured that they miss nothing from now on.
func (r *Runner) retire() error {
	const ending = ".runs"
	logs, err := filepath.Glob(filepath.Join(r.config.Dir, "*"+ending))
	if err != nil {
		return fmt.Errorf("cannot look through state directory %q: %w", r.config.Dir, err)
	}
	for _, path := range logs {
		name := strings.TrimSuffix(filepath.Base(path), ending)
		if r.states[name] != nil {
			continue
		}
		j, err := openJob(&r.config, &Job{Name: name, Schedule: Unscheduled{}, KillGrace: retiredGrace})
		if err == nil {
			r.trouble(name, errors.Join(j.unsaved, j.retire()))
			r.retired = append(r.retired, j)
		} // what is wrong with the file is reported when the job is configured again
	}
	return nil
}

// SetJobs replaces the jobs, which are valid. Runs under way finish as they
// began, also those of jobs that were removed. A job keeps its cursor, its pause and
// its history by its name. After an error nothing has changed.
func (r *Runner) SetJobs(list []*Job) error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	opened := make(map[string]*jobControl, len(list))
	configured := make([]*jobControl, 0, len(list))
	for _, job := range list {
		if opened[job.Name] != nil {
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
		opened[job.Name] = j
		configured = append(configured, j)
	}
	for _, j := range r.all() {
		if opened[j.name] == nil {
			r.trouble(j.name, j.retire())
		}
	}
	for i, job := range list {
		r.define(configured[i], job)
	}
	r.mu.Lock()
	maps.Copy(r.states, opened)
	r.jobs = configured
	r.mu.Unlock()
	r.lookAtHosts(context.Background())
	r.checkSuccess()
	return nil
}

// define replaces the definition of a job. What the schedule before has missed is recorded; among
// hosts, another one may have run it.
func (r *Runner) define(j *jobControl, job *Job) {
	missed, err := j.define(job, r.now())
	r.trouble(j.name, err)
	if j.share == nil {
		r.skipMissed(j, missed)
	}
}

// Start ends what a killed daemon left running, which takes the jobs' KillGrace at most. Then
// it makes up for what was missed while no daemon was running, as far as the jobs want that,
// and begins the runs at start. It is called once, before the first Tick, which is for a later
// slot.
func (r *Runner) Start(ctx context.Context) {
	var sweeps sync.WaitGroup
	for _, j := range r.all() {
		r.reportDied(j)
	}
	for _, j := range slices.Concat(r.all(), r.retired) {
		sweeps.Go(func() { r.trouble(j.name, j.endLeftovers(ctx, r.config.EndLeftover)) })
	}
	sweeps.Wait()
	r.retired = nil
	if r.config.Store != nil {
		r.goUnlessStopping(r.watchHosts)
	}
	for _, j := range r.all() {
		r.start(j)
	}
	r.goUnlessStopping(r.watchSuccess)
}

// reportDied reports the run and the passes that were under way when the daemon
// was killed.
func (r *Runner) reportDied(j *jobControl) {
	j.mu.Lock()
	run, unsaved := j.died, j.unsaved
	j.died, j.unsaved = nil, nil
	j.mu.Unlock()
	r.trouble(j.name, unsaved)
	if run == nil {
		return
	}
	r.trouble(j.name, r.countDied(j, run))
	for _, p := range run.Passes {
		if p.Reason == Died {
			r.config.OnEvent(PassChanged{run.head(), p})
		}
	}
	r.config.OnEvent(RunChanged{*run, j.current().Schedule.Next(r.now())})
}

// countDied records what the passes that were under way when the daemon was killed were granted,
// if the ledger can be asked.
func (r *Runner) countDied(j *jobControl, run *Run) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var list []record
	for i := range run.Passes {
		p := &run.Passes[i]
		if p.Reason != Died {
			continue
		}
		spent, err := r.config.Gate.Spent(ctx, j.current().Credential, j.name, p.StartedAt)
		if err != nil {
			break
		}
		of := spent[string(p.Region)]
		p.Units, p.Calls, p.Made = of.Units, of.Calls, of.Made
		list = append(list, passRecord(run.ID, *p))
	}
	return j.commit(false, list...)
}

// Stop begins no further run or pass, and waits until those under way are over and
// recorded. Passes may end by themselves until ask ends; then they are asked to end,
// and killed after their job's KillGrace or as soon as force ends, which is not before
// ask. Regions whose pass was interrupted keep their turn.
func (r *Runner) Stop(ask, force context.Context) {
	r.beginNoMore()
	list := r.underWay()
	for _, step := range []struct {
		do    func(*executor)
		until context.Context
	}{
		{func(e *executor) { e.halt(ErrShutdown) }, ask},
		{func(e *executor) { e.end(ErrShutdown) }, force},
		{func(e *executor) { e.kill(ErrShutdown) }, context.Background()},
	} {
		for _, e := range list {
			step.do(e)
		}
		if areOver(step.until, list) {
			break
		}
	}
	r.background.Wait()                         // all of it ends with stopping, and no call takes long
	areOver(context.Background(), r.underWay()) // what was about to begin then, and launches nothing
}

// areOver waits until runs are over, or ctx ends, and returns whether they are.
func areOver(ctx context.Context, list []*executor) bool {
	for _, e := range list {
		select {
		case <-e.done:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// now reads the wall clock, in UTC like every time that leaves this package.
func (r *Runner) now() time.Time { return r.config.Now().UTC() }

// state returns the state of a job that is configured.
func (r *Runner) state(job string) (*jobControl, error) {
	all := r.all()
	i := slices.IndexFunc(all, func(j *jobControl) bool { return j.name == job })
	if i < 0 {
		return nil, fmt.Errorf("job %q: %w", job, ErrUnknown)
	}
	return all[i], nil
}

// listed returns the state of a job or, if job is empty, of all in the order of configuration, and
// then of those that were removed while a run of theirs is under way.
func (r *Runner) listed(job string) ([]*jobControl, error) {
	all := r.all()
	list := slices.Clone(all)
	for _, j := range r.known() {
		if !slices.Contains(all, j) && j.underWay() != nil {
			list = append(list, j)
		}
	}
	if job == "" {
		return list, nil
	}
	i := slices.IndexFunc(list, func(j *jobControl) bool { return j.name == job })
	if i < 0 {
		return nil, fmt.Errorf("job %q: %w", job, ErrUnknown)
	}
	return list[i : i+1], nil
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
func (r *Runner) underWay() []*executor {
	var list []*executor
	for _, j := range r.known() {
		if e := j.underWay(); e != nil {
			list = append(list, e)
		}
	}
	return list
}

// Spending returns the ids of the runs under way that spend from a credential,
// by the names of their jobs, also those of jobs that were removed or spend from another one by now.
func (r *Runner) Spending(credential string) []string {
	var runs []string
	for _, e := range r.underWay() {
		if e.job.Credential == credential {
			runs = append(runs, e.run.ID)
		}
	}
	return runs
}

func (r *Runner) isStopping() bool { return r.stopping.Err() != nil }

func (r *Runner) trouble(job string, err error) {
	if err != nil {
		r.config.OnEvent(Trouble{job, err})
	}
}

// goUnlessStopping runs something in the background, until Stop ends its context. Stop waits
// for it.
func (r *Runner) goUnlessStopping(do func(context.Context)) {
	if done, err := r.enter(); err == nil {
		go func() {
			defer done()
			do(r.stopping)
		}()
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

// checkSuccess has watchSuccess check again: a job, its pause or its last run has changed.
func (r *Runner) checkSuccess() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}
