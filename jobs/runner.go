package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A Gate tells whether a pass could be afforded; a quota.Service is one.
type Gate interface {
	// Peek decides what would become of calls of several operations together,
	// operation to count, and moves nothing. An error means that nobody can
	// tell.
	Peek(ctx context.Context, credential string, calls map[string]quota.Units) (quota.Decision, error)
}

// A Config is what a Runner is made of. Every field is needed, unless its
// comment says what its zero value means.
type Config struct {
	Jobs     []*Job // valid ones
	Gate     Gate
	Launcher Launcher
	Tokens   *Tokens
	Observer Observer
	Dir      string   // where cursors and histories are kept; nobody else writes to it
	Socket   string   // where passes acquire
	Environ  []string // the daemon's own environment; passes get an allow-list of it. Nil: none
	Parallel int      // passes under way at once, of all jobs together; 0: any number

	// BootID is the kernel's, as in an Identity.
	BootID string
	// EndLeftover ends a process, with all that descends from it, that a killed
	// daemon left running: TERM, and KILL after the grace. It leaves alone what
	// only has the same number. It is false if there was nothing to end.
	EndLeftover func(ctx context.Context, id Identity, grace time.Duration) (ended bool, err error)

	Now func() time.Time // the wall clock

	Fleet Fleet  // what this host shares with others that run the same jobs; nil: there are none
	Host  string // the name of this one among them, for people
}

// A Runner runs jobs. It owns their cursors and histories. Any number of
// goroutines may use it at the same time.
type Runner struct {
	config Config
	places chan struct{} // one for each pass that may be under way; nil: any number

	store     *regions.Store
	reloading sync.Mutex     // held while the jobs are replaced
	contests  sync.WaitGroup // for slots that other hosts want to run too
	stopped   chan struct{}  // closed when no run begins any more

	mu       sync.RWMutex     // guards what follows
	stopping bool             // no run begins any more
	desks    map[string]*desk // also of jobs that are gone: a run of theirs may be under way
	order    []string         // the names of the jobs, as configured
}

// Open returns a runner that continues where the last one left off: what that
// one was killed over is recorded as interrupted, and its regions keep their
// turn. Nothing runs before Start or Tick.
func Open(c Config) (*Runner, error) {
	store, err := regions.OpenStore(c.Dir)
	if err != nil {
		return nil, err
	}
	r := &Runner{config: c, store: store, stopped: make(chan struct{}), desks: make(map[string]*desk, len(c.Jobs))}
	if c.Parallel > 0 {
		r.places = make(chan struct{}, c.Parallel)
	}
	if err := r.SetJobs(c.Jobs); err != nil {
		return nil, err
	}
	return r, nil
}

// SetJobs replaces the jobs, which are valid. Runs under way finish as they
// began, also those of jobs that are gone; a job keeps its cursor, its pause and
// its history by its name. After an error nothing has changed.
func (r *Runner) SetJobs(list []*Job) error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	opened := make(map[string]*desk, len(list))
	order := make([]string, 0, len(list))
	for _, job := range list {
		if opened[job.Name] != nil {
			return fmt.Errorf("job %q is defined twice", job.Name)
		}
		d, err := r.open(job)
		if err != nil {
			return fmt.Errorf("job %q: %w", job.Name, err)
		}
		opened[job.Name] = d
		order = append(order, job.Name)
	}
	for _, job := range list {
		r.define(opened[job.Name], job)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.desks, opened)
	r.order = order
	return nil
}

// define replaces the definition of a job. What the schedule before has missed on
// this host, others may have run.
func (r *Runner) define(d *desk, job *Job) {
	missed, err := d.define(job, r.now())
	r.trouble(d.name, err)
	if r.config.Fleet == nil {
		r.noteMissed(d, missed)
	}
}

// open returns the desk of a job: the one that it has, or had, or a new one.
func (r *Runner) open(job *Job) (*desk, error) {
	r.mu.RLock()
	d := r.desks[job.Name]
	r.mu.RUnlock()
	if d != nil {
		return d, nil
	}
	return openDesk(r.config.Dir, r.store, job, r.now())
}

// now reads the wall clock, in UTC as everything that is told to others.
func (r *Runner) now() time.Time { return r.config.Now().UTC() }

// desk returns the desk of a job.
func (r *Runner) desk(job string) (*desk, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	d := r.desks[job]
	if d == nil || !slices.Contains(r.order, job) {
		return nil, fmt.Errorf("job %q: %w", job, ErrUnknown)
	}
	return d, nil
}

// all returns the desks in the order of configuration.
func (r *Runner) all() []*desk {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]*desk, 0, len(r.order))
	for _, name := range r.order {
		list = append(list, r.desks[name])
	}
	return list
}

// underWay returns the walks that are under way, of any job.
func (r *Runner) underWay() []*walk {
	r.mu.RLock()
	desks := slices.Collect(maps.Values(r.desks))
	r.mu.RUnlock()
	var walks []*walk
	for _, d := range desks {
		if w := d.underWay(); w != nil {
			walks = append(walks, w)
		}
	}
	return walks
}

// some returns the desk of a job, or all if job is empty.
func (r *Runner) some(job string) ([]*desk, error) {
	if job == "" {
		return r.all(), nil
	}
	d, err := r.desk(job)
	return []*desk{d}, err
}

func (r *Runner) isStopping() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.stopping
}

func (r *Runner) trouble(job string, err error) {
	if err != nil {
		r.config.Observer.Trouble(job, err)
	}
}
