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

	"quotad/quota/slidinglog"
	"quotad/regions"
)

// A Config is what a Runner is made of. Every field is needed, unless its
// comment says what its zero value means.
type Config struct {
	Jobs     []*Job // valid ones
	Gate     Gate
	Launcher Launcher
	Tokens   *Tokens
	Dir      string // where states and logs of runs are kept; nobody else writes to it
	Socket   string // where passes acquire
	// Proxy returns the address by which the holder of a run token calls the upstream of a
	// credential; empty where there is none. Nil: there is none of any.
	Proxy    func(credential, token string) string
	Environ  []string // the daemon's own environment; passes get an allow-list of it. Nil: none
	Parallel int      // passes under way at once, of all jobs together; 0: any number

	// OnEvent is called with each event, see RunChanged and the others. It is called
	// while a job's next step waits, so it returns soon; by many goroutines at the same
	// time, but about one pass by one at a time. Nil: nobody wants to know.
	OnEvent func(event any)

	// BootID is the kernel's, as in an Identity.
	BootID string
	// EndLeftover ends a process, with all that descends from it, that a killed
	// daemon left running: TERM, and KILL after the grace. It leaves alone what
	// only has the same number. It is false if there was nothing to end.
	EndLeftover func(ctx context.Context, id Identity, grace time.Duration) (ended bool, err error)

	Now func() time.Time // the wall clock

	// Store keeps the logs of the jobs for all hosts that run them; nil: there are no others.
	Store slidinglog.Store
	Host  string // the name of this one among them, for people
}

// A Runner runs jobs. It owns their cursors and histories. Any number of
// goroutines may use it at the same time.
type Runner struct {
	config     Config
	places     chan struct{}  // one for each pass that may be under way; nil: any number
	reserved   reserved       // by the passes under way
	reloading  sync.Mutex     // held while the jobs are replaced
	background sync.WaitGroup // for slots that are claimed, and for publishers
	stopped    chan struct{}  // closed when no run begins any more
	changed    chan struct{}  // holds one if watchSuccess is to look again

	mu       sync.RWMutex           // guards what follows
	stopping bool                   // no run begins any more
	states   map[string]*jobControl // also of jobs that are gone: a run of theirs may be under way
	order    []string               // the names of the jobs, as configured
}

// Open returns a runner that continues where the last one left off: what that
// one was killed over is recorded as interrupted, and its regions keep their
// turn. Nothing runs before Start or Tick.
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
	r := &Runner{config: c, stopped: make(chan struct{}), changed: make(chan struct{}, 1), states: make(map[string]*jobControl, len(c.Jobs))}
	if c.Parallel > 0 {
		r.places = make(chan struct{}, c.Parallel)
	}
	if err := r.SetJobs(c.Jobs); err != nil {
		return nil, err
	}
	return r, r.retire()
}

// retire notes of the jobs that are not configured that they miss nothing from now on.
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
		j, err := openJob(&r.config, &Job{Name: name, Schedule: Unscheduled{}})
		if err == nil {
			r.trouble(name, errors.Join(j.unsaved, j.retire()))
		} // what is wrong with the file is told when the job is configured again
	}
	return nil
}

// SetJobs replaces the jobs, which are valid. Runs under way finish as they
// began, also those of jobs that are gone; a job keeps its cursor, its pause and
// its history by its name. After an error nothing has changed.
func (r *Runner) SetJobs(list []*Job) error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	opened := make(map[string]*jobControl, len(list))
	order := make([]string, 0, len(list))
	for _, job := range list {
		if opened[job.Name] != nil {
			return fmt.Errorf("job %q is defined twice", job.Name)
		}
		j, err := r.open(job)
		if err != nil {
			return fmt.Errorf("job %q: %w", job.Name, err)
		}
		opened[job.Name] = j
		order = append(order, job.Name)
	}
	for _, j := range r.all() {
		if opened[j.name] == nil {
			r.trouble(j.name, j.retire())
		}
	}
	for _, job := range list {
		r.define(opened[job.Name], job)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.states, opened)
	r.order = order
	r.note()
	return nil
}

// open returns the state of a job: the one that it has, or had, or a new one.
func (r *Runner) open(job *Job) (*jobControl, error) {
	r.mu.RLock()
	j := r.states[job.Name]
	r.mu.RUnlock()
	if j != nil {
		return j, nil
	}
	return openJob(&r.config, job)
}

// define replaces the definition of a job. What the schedule before has missed on
// this host, others may have run.
func (r *Runner) define(j *jobControl, job *Job) {
	now := r.now()
	missed, err := j.define(job, now)
	r.trouble(j.name, err)
	if missed.n == 0 {
		return
	}
	r.noteMissed(context.Background(), j, func() gap {
		if missed.first.After(j.story.Slot) {
			return missed
		}
		return gap{}
	})
}

// Start ends what a killed daemon left running, which takes the jobs' KillGrace
// at most. Then it makes up for what was missed while no daemon was there, as
// far as the jobs want that, and runs those that are to run at the start. It is
// called once, before the first Tick, which is for a later slot.
func (r *Runner) Start(ctx context.Context) {
	var sweeps, starts sync.WaitGroup
	for _, j := range r.all() {
		r.reportDied(j)
		sweeps.Go(func() { r.trouble(j.name, j.endLeftovers(ctx, r.config.EndLeftover)) })
	}
	sweeps.Wait()
	for _, j := range r.all() {
		starts.Go(func() { r.start(ctx, j) })
	}
	starts.Wait()
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

// countDied has the passes that were under way when the daemon was killed say what they were
// granted. If the ledger cannot be asked, they say nothing.
func (r *Runner) countDied(j *jobControl, run *Run) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*hostsTime)
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
	if len(list) == 0 {
		return nil
	}
	return j.noteThat(false, func() []record {
		for _, one := range list {
			j.own.take(one)
		}
		return list
	})
}

func (r *Runner) start(ctx context.Context, j *jobControl) {
	r.look([]*jobControl{j}) // other hosts may have run what this one would make up for
	now := r.now().Truncate(time.Millisecond)
	if slot := j.overdue(now); !slot.IsZero() {
		r.tick(j, CatchUp, slot)
		return
	}
	if j.current().RunAtStart {
		r.tick(j, AtStart, now)
		return
	}
	r.noteMissed(ctx, j, func() gap { return gapBetween(j.job.Schedule, j.slot(), now) })
}

// Tick has a job's slot run, or records why it is not. It returns at once. A slot
// that was ticked before, a job that is not configured, and ticks after Stop are ignored.
func (r *Runner) Tick(job string, slot time.Time) {
	if j, err := r.state(job); err == nil {
		r.tick(j, Scheduled, slot)
	}
}

// Stop begins no further run or pass, and waits until those under way are over and
// recorded. Passes may come to their own end until ask ends; then they are asked to end,
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
	r.background.Wait()                         // what waits has been told, and no question takes long
	areOver(context.Background(), r.underWay()) // what was about to begin then, and launches nothing
}

// areOver waits until runs are over, or ctx ends, and tells whether they are.
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

func (r *Runner) beginNoMore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopping {
		r.stopping = true
		close(r.stopped)
	}
}

// now reads the wall clock, in UTC as everything that is told to others.
func (r *Runner) now() time.Time { return r.config.Now().UTC() }

// state returns the state of a job.
func (r *Runner) state(job string) (*jobControl, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	j := r.states[job]
	if j == nil || !slices.Contains(r.order, job) {
		return nil, fmt.Errorf("job %q: %w", job, ErrUnknown)
	}
	return j, nil
}

// all returns the states of the jobs in the order of configuration.
func (r *Runner) all() []*jobControl {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]*jobControl, 0, len(r.order))
	for _, name := range r.order {
		list = append(list, r.states[name])
	}
	return list
}

// some returns the state of a job, or all if job is empty.
func (r *Runner) some(job string) ([]*jobControl, error) {
	if job == "" {
		return r.all(), nil
	}
	j, err := r.state(job)
	return []*jobControl{j}, err
}

// underWay returns the executors of the runs under way, of any job.
func (r *Runner) underWay() []*executor {
	r.mu.RLock()
	states := slices.Collect(maps.Values(r.states))
	r.mu.RUnlock()
	var list []*executor
	for _, j := range states {
		if e := j.underWay(); e != nil {
			list = append(list, e)
		}
	}
	return list
}

// Spending returns the ids of the runs under way that spend from a credential,
// oldest first, also those of jobs that are gone or spend from another one by now.
func (r *Runner) Spending(credential string) []string {
	var runs []string
	for _, e := range r.underWay() {
		if e.job.Credential == credential {
			runs = append(runs, e.id)
		}
	}
	slices.Sort(runs)
	return runs
}

func (r *Runner) isStopping() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.stopping
}

func (r *Runner) trouble(job string, err error) {
	if err != nil {
		r.config.OnEvent(Trouble{job, err})
	}
}

// goUnlessStopping runs something in the background, for which Stop waits.
func (r *Runner) goUnlessStopping(do func(context.Context)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.stopping {
		return
	}
	r.background.Go(func() {
		ctx, cancel := r.untilStop()
		defer cancel()
		do(ctx)
	})
}

// enter has Stop wait for something until done is called, unless it was stopped.
func (r *Runner) enter() (done func(), err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.stopping {
		return nil, ErrStopping
	}
	r.background.Add(1)
	return r.background.Done, nil
}

// untilStop returns a context that ends when the runner stops.
func (r *Runner) untilStop() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		select {
		case <-r.stopped:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// note has watchSuccess look again: a job, its pause or its last run has changed.
func (r *Runner) note() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}
