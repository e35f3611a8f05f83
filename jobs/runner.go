package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Runner runs jobs. It owns their cursors and histories. Any number of
// goroutines may use it at the same time.
type Runner struct {
	config     Config
	gate       chan struct{}  // holds one while a pass asks the gate
	background sync.WaitGroup // for what Stop waits for

	ending      sync.RWMutex // guards the end of stopping
	stopping    context.Context
	beginNoMore context.CancelFunc // ends stopping

	reloading sync.Mutex    // held while the jobs are replaced
	retired   []*jobControl // of jobs that are not configured, until Start ends what they left running

	mu     sync.RWMutex           // guards what follows
	states map[string]*jobControl // also of jobs that were removed: a run of theirs may be under way
	jobs   []*jobControl          // as configured
}

// now reads the wall clock, in UTC like every time that leaves this package.
func (r *Runner) now() time.Time { return r.config.Now().UTC() }

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
	r.ending.RLock()
	defer r.ending.RUnlock()
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
