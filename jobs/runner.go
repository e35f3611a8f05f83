package jobs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A Gate tells whether a pass could be afforded; a quota.Keeper is one.
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
}

// A Runner runs jobs. It owns their cursors and histories. Any number of
// goroutines may use it at the same time.
type Runner struct {
	Config
	places chan struct{} // one for each pass that may be under way; nil: any number

	mu       sync.RWMutex // guards what follows
	stopping bool         // no run begins any more
	desks    map[string]*desk
	order    []string // the names of the jobs, as configured
}

// Open returns a runner that continues where the last one left off: what that
// one was killed over is recorded as interrupted, and its regions keep their
// turn. Nothing runs before Start or Tick.
func Open(c Config) (*Runner, error) {
	store, err := regions.OpenStore(c.Dir)
	if err != nil {
		return nil, err
	}
	r := &Runner{Config: c, desks: make(map[string]*desk, len(c.Jobs))}
	if c.Parallel > 0 {
		r.places = make(chan struct{}, c.Parallel)
	}
	for _, job := range c.Jobs {
		if r.desks[job.Name] != nil {
			return nil, fmt.Errorf("job %q is defined twice", job.Name)
		}
		d, err := openDesk(c.Dir, store, job, c.Now())
		if err != nil {
			return nil, fmt.Errorf("job %q: %w", job.Name, err)
		}
		r.desks[job.Name] = d
		r.order = append(r.order, job.Name)
	}
	return r, nil
}

// desk returns the desk of a job.
func (r *Runner) desk(job string) (*desk, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	d := r.desks[job]
	if d == nil {
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
		r.Observer.Trouble(job, err)
	}
}
