package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota/api"
)

// Reloads is what a daemon knows of its configuration and of putting another in
// its place.
type reloads struct {
	told  atomic.Pointer[api.Configuration] // which one is in force
	grace atomic.Int64                      // the longest KillGrace of any job so far

	mu      sync.Mutex // held while the configuration is replaced; guards what follows
	current *config.Config
	running bool // nothing is replaced before the daemon is ready, nor when it stops

	warnings sync.WaitGroup // being looked for, in configurations that are in force already
}

// openReloads begins to take what SIGHUP and operators ask for.
func (d *daemon) openReloads(context.Context) error {
	d.reloads.mu.Lock()
	d.reloads.current, d.reloads.running = d.config, true
	d.reloads.mu.Unlock()
	over, heeded := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(heeded)
		d.heedHangups(over)
	}()
	d.onStop("end reloads", func() error {
		close(over)
		<-heeded
		d.reloads.mu.Lock()
		d.reloads.running = false
		d.reloads.mu.Unlock()
		d.reloads.warnings.Wait()
		return nil
	})
	return nil
}

func (d *daemon) heedHangups(over <-chan struct{}) {
	for {
		select {
		case s := <-d.hangups:
			d.reload(signalName(s)) // whoever sent it reads the log, or the status
		case <-over:
			return
		}
	}
}

func signalName(s os.Signal) string { return "signal " + s.String() }

// reload reads the configuration again and puts it in the place of the one in
// force: as a whole, or, after an error, not at all. Runs under way go on as they
// began. Its warnings come later: to play a schedule takes a busy machine longer than
// somebody waits who asked for the reload.
func (d *daemon) reload(by string) (api.Reloaded, error) {
	d.reloads.mu.Lock()
	defer d.reloads.mu.Unlock()
	if !d.reloads.running {
		return api.Reloaded{}, errors.New("quotad is starting or stopping: it reads its configuration at the next start")
	}
	d.tellSystemd(reloading())
	was := d.reloads.current
	changes, err := d.replace()
	d.tellSystemd("READY=1")
	d.noteReload(by, changes, err)
	if is := d.reloads.current; err == nil {
		d.reloads.warnings.Go(func() { d.warn(is) })
	}
	answer := api.Reloaded{File: d.config.File, Changes: changes}
	for _, one := range append(d.reloads.current.Reminders(), d.reloads.current.LongerClientWindows(was)...) {
		answer.Reminders = append(answer.Reminders, one.Key+": "+one.Message)
	}
	return answer, err
}

// replace does what reload says. The caller holds the lock of the reloads.
func (d *daemon) replace() ([]api.Change, error) {
	was := d.reloads.current
	is, err := d.load()
	if err != nil {
		return nil, err
	}
	changes := d.changes(was, is)
	if err := errors.Join(checkRestart(changes), d.checkSpending(was, is)); err != nil {
		return nil, err
	}
	if err := d.apply(was, is, changes); err != nil {
		return nil, errors.Join(err, d.apply(is, was, changes))
	}
	d.reloads.current = is
	d.reloads.remember(is)
	return changes, nil
}

// changes returns what is different. Where systemd passes the socket, the one that the
// file names has no meaning.
func (d *daemon) changes(was, is *config.Config) []api.Change {
	changes := was.Changes(is)
	if d.systemd.api == nil {
		return changes
	}
	return slices.DeleteFunc(changes, func(c api.Change) bool { return c.Key == "socket" })
}

// checkRestart refuses a configuration that a running daemon could follow in part only.
func checkRestart(changes []api.Change) error {
	keys := config.NeedsRestart(changes)
	if len(keys) == 0 {
		return nil
	}
	return fmt.Errorf("%s cannot change while quotad runs: restart it, or leave that as it was", strings.Join(keys, ", "))
}

// checkSpending refuses to take a credential away from a run: its passes would be
// denied by a configuration that they did not begin under.
func (d *daemon) checkSpending(was, is *config.Config) error {
	for _, c := range was.Credentials {
		if runs := d.runner.Spending(c.Name); len(runs) > 0 && !hasCredential(is, c.Name) {
			return fmt.Errorf("credential %q cannot be removed while a run spends from it: wait for its end, or quotactl stop %s", c.Name, runs[0])
		}
	}
	return nil
}

func hasCredential(c *config.Config, name string) bool {
	_, has := c.Outages[name] // each credential has one
	return has
}

// apply does what has changed.
func (d *daemon) apply(was, is *config.Config, changes []api.Change) error {
	if changed(changes, "credentials") {
		if err := d.setCredentials(is); err != nil {
			return err
		}
	}
	if changed(changes, "clients") {
		if err := d.setClients(is); err != nil {
			return err
		}
	}
	if changed(changes, "jobs") {
		if err := d.makeWorkDirs(is); err != nil {
			return err
		}
		if err := d.setJobs(was.Jobs, is.Jobs); err != nil {
			return err
		}
	}
	d.remote.SetCallers(is.Remote.Callers)
	d.notifier.Configure(is.OnEvent)
	setLevel(is.LogLevel)
	return nil
}

// changed tells whether anything has in the tables of a kind.
func changed(changes []api.Change, kind string) bool {
	return slices.ContainsFunc(changes, func(c api.Change) bool { return strings.HasPrefix(c.Key, kind+".") })
}

// setJobs replaces the jobs. One whose schedule is the same keeps its timer: a
// slot that is due right now must not be passed over.
func (d *daemon) setJobs(was, is []*jobs.Job) error {
	if err := d.runner.SetJobs(is); err != nil {
		return err
	}
	schedules := make(map[string]string, len(was))
	for _, job := range was {
		schedules[job.Name] = job.Schedule.String()
	}
	for _, job := range is {
		if schedules[job.Name] == job.Schedule.String() {
			continue
		}
		if err := d.ticks.Set(job.Name, job.Schedule); err != nil {
			return err
		}
	}
	return d.unschedule(was, is)
}

// unschedule has jobs that are gone not tick any more.
func (d *daemon) unschedule(was, is []*jobs.Job) error {
	for _, job := range was {
		if slices.ContainsFunc(is, func(j *jobs.Job) bool { return j.Name == job.Name }) {
			continue
		}
		if err := d.ticks.Remove(job.Name); err != nil {
			return err
		}
	}
	return nil
}

// noteReload tells what became of a reload to everybody who did not ask for it. The log
// comes last: a reader who finds it there finds the status to agree.
func (d *daemon) noteReload(by string, changes []api.Change, err error) {
	told := *d.reloads.told.Load()
	if err == nil {
		told = api.Configuration{File: told.File, ReadAt: time.Now()}
	} else {
		told.FailedAt, told.Error = time.Now(), err.Error()
	}
	d.reloads.told.Store(&told)
	d.metrics.Loaded(err == nil)
	d.status.notify()
	if err != nil {
		d.log.Error().Str("by", by).Err(err).Msg("cannot reload: the configuration stays as it was")
		return
	}
	d.log.Info().Str("by", by).Strs("changes", texts(changes)).Msg("configuration reloaded")
}

// texts writes changes for the log: "changed jobs.trending.regions".
func texts(changes []api.Change) []string {
	list := make([]string, len(changes))
	for i, c := range changes {
		list[i] = string(c.Kind) + " " + c.Key
	}
	return list
}

// remember notes the longest KillGrace: a run may go on under a definition that
// was replaced.
func (r *reloads) remember(c *config.Config) {
	for _, job := range c.Jobs {
		r.grace.Store(max(r.grace.Load(), int64(job.KillGrace)))
	}
}
