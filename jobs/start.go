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
)

// Open returns a runner that continues where the last one left off. What was under way when
// that one was killed is recorded as interrupted, and its regions keep their turn. Nothing runs
// before Start or Tick.
func Open(c Config) (*Runner, error) {
	if err := os.MkdirAll(c.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("cannot make state directory: %w", err)
	}
	if c.OnEvent == nil {
		c.OnEvent = func(any) {}
	}
	if c.Proxy == nil {
		c.Proxy = func(string, string) string { return "" }
	}
	r := &Runner{config: c, gate: make(chan struct{}, 1), states: make(map[string]*jobControl, len(c.Jobs))}
	stopping, stop := context.WithCancel(context.Background())
	r.stopping, r.beginNoMore = stopping, func() {
		r.ending.Lock() // no background goroutine begins meanwhile
		defer r.ending.Unlock()
		stop()
	}
	if err := r.SetJobs(c.Jobs); err != nil {
		return nil, err
	}
	return r, r.retire()
}

// retire records for the jobs that are not configured that they miss nothing from now on.
func (r *Runner) retire() error {
	logs, err := filepath.Glob(filepath.Join(r.config.Dir, "*"+stateEnding))
	if err != nil {
		return fmt.Errorf("cannot look through state directory %q: %w", r.config.Dir, err)
	}
	for _, path := range logs {
		name := strings.TrimSuffix(filepath.Base(path), stateEnding)
		if r.states[name] != nil {
			continue
		}
		j, err := openJob(&r.config, &Job{Name: name, Schedule: Unscheduled{}})
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
		r.trouble(job.Name, configured[i].define(job, r.now()))
	}
	r.mu.Lock()
	maps.Copy(r.states, opened)
	r.jobs = configured
	r.mu.Unlock()
	return nil
}

// Start ends what a killed daemon left running, which takes KillGrace at most. Then
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
	for _, j := range r.all() {
		r.start(j)
	}
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
			r.config.OnEvent(PassChanged{Run: run.head(), Pass: p})
		}
	}
	r.config.OnEvent(RunChanged{*run, j.current().Schedule.Next(r.now())})
}

// countDied records what the passes that were under way when the daemon was killed were granted,
// if the ledger can be asked.
func (r *Runner) countDied(j *jobControl, run *Run) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var lines []runsLine
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
		lines = append(lines, runsLine{Of: run.ID, Pass: p})
	}
	j.mu.Lock()
	for _, one := range lines {
		j.run.put(*one.Pass)
	}
	j.mu.Unlock()
	return j.save(false, lines...)
}

// Stop begins no further run or pass, and waits until those under way are over and
// recorded. Passes may end by themselves until ask ends; then they are asked to end,
// and killed after KillGrace or as soon as force ends, which is not before
// ask. Regions whose pass was interrupted keep their turn.
func (r *Runner) Stop(ask, force context.Context) {
	r.beginNoMore()
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
