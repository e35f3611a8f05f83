package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdnotify "github.com/coreos/go-systemd/v22/daemon"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota/api"
)

// Reloads is the state of the configuration and of its replacement.
type reloads struct {
	state atomic.Pointer[api.Configuration] // which one is in force

	mu      sync.Mutex     // held while the configuration is replaced; guards current
	current *config.Config // nil before the daemon is ready and when it stops: nothing is replaced then

}

// startReloads begins to serve SIGHUP and the operators' reloads.
func (d *daemon) startReloads() {
	set := func(current *config.Config) {
		d.reloads.mu.Lock()
		d.reloads.current = current
		d.reloads.mu.Unlock()
	}
	set(d.config)
	d.atStop(func() { set(nil) })
	d.background(func(ctx context.Context) {
		for {
			select {
			case s := <-d.hangups:
				d.reload("signal " + s.String()) // its sender reads the log, or the status
			case <-ctx.Done():
				return
			}
		}
	})
}

// reload reads the configuration again and replaces the one in force: as a whole, or, after
// an error, not at all. Runs under way continue as they began.
func (d *daemon) reload(by string) (api.Reloaded, error) {
	d.reloads.mu.Lock()
	defer d.reloads.mu.Unlock()
	was := d.reloads.current
	if was == nil {
		return api.Reloaded{}, errors.New("quotad is starting or stopping: it reads its configuration at the next start")
	}
	// A Type=notify-reload service reports when it began.
	d.notifySystemd("RELOADING=1\n" + sdnotify.SdNotifyMonotonicUsec())
	err := d.replace()
	d.notifySystemd("READY=1")
	is := d.reloads.current
	answer := api.Reloaded{File: d.config.File, Changed: was.Changed(is)}
	d.reportReload(by, answer.Changed, err)
	if err == nil {
		d.warn(is)
	}
	for _, one := range is.Warnings() {
		answer.Warnings = append(answer.Warnings, one.Key+": "+one.Message)
	}
	return answer, err
}

// replace replaces the configuration. The caller holds the lock of the reloads.
func (d *daemon) replace() error {
	was := d.reloads.current
	is, err := load(d.options.config, d.systemd.host())
	if err != nil {
		return err
	}
	keys := was.NeedsRestart(is)
	if d.systemd.api != nil { // that is the socket, whatever the file names
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == "socket" })
	}
	if len(keys) > 0 { // a running daemon could follow in part only
		return fmt.Errorf("%s cannot change while quotad runs: restart it, or leave that as it was", strings.Join(keys, ", "))
	}
	if err := d.checkSpending(was, is); err != nil {
		return err
	}
	if err := d.apply(was, is); err != nil {
		return errors.Join(err, d.apply(is, was))
	}
	d.reloads.current = is
	d.inForce.Store(is)
	return nil
}

// checkSpending refuses to remove a credential that a run spends from: its passes would be
// denied by a configuration that they did not begin under.
func (d *daemon) checkSpending(was, is *config.Config) error {
	for _, c := range was.Credentials {
		_, stays := is.Outages[c.Name] // each credential has one
		if runs := d.runner.Spending(c.Name); len(runs) > 0 && !stays {
			return fmt.Errorf("credential %q cannot be removed while a run spends from it: wait for its end, or quotactl stop %s", c.Name, runs[0])
		}
	}
	return nil
}

// apply carries out what is another.
func (d *daemon) apply(was, is *config.Config) error {
	type spending struct{ credentials, outages, profiles, presets any }
	of := func(c *config.Config) spending { return spending{c.Credentials, c.Outages, c.Profiles, c.Presets} }
	if !reflect.DeepEqual(of(was), of(is)) {
		if err := d.setCredentials(is); err != nil {
			return err
		}
		d.ledger.Await(d.ask) // what was added decides when the reload answers
	}
	if was.ClientSecret != is.ClientSecret || !reflect.DeepEqual(was.Clients, is.Clients) {
		if err := d.setClients(is); err != nil {
			return err
		}
	}
	if err := d.makeJobDirs(is); err != nil {
		return err
	}
	if err := d.setJobs(was.Jobs, is.Jobs); err != nil {
		return err
	}
	if err := d.setTargets(is); err != nil {
		return err
	}
	d.remote.SetCallers(is.Callers)
	d.notifier.Configure(is.OnEvent)
	setLevel(is.Log.Level)
	return nil
}

// setJobs replaces the jobs. One whose schedule is the same keeps its timer: a
// slot that is due right now must not be passed over.
func (d *daemon) setJobs(was, is []*jobs.Job) error {
	if err := d.runner.SetJobs(is); err != nil {
		return err
	}
	removed := make(map[string]jobs.Schedule, len(was))
	for _, job := range was {
		removed[job.Name] = job.Schedule
	}
	for _, job := range is {
		before, known := removed[job.Name]
		delete(removed, job.Name)
		if known && before.String() == job.Schedule.String() {
			continue
		}
		if err := d.schedule.Set(job.Name, job.Schedule); err != nil {
			return err
		}
	}
	for name := range removed {
		if err := d.schedule.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// reportReload publishes the result of a reload. The log comes last: a reader who finds it there
// finds that the status agrees.
func (d *daemon) reportReload(by, changed string, err error) {
	state := *d.reloads.state.Load()
	if err == nil {
		state = api.Configuration{File: state.File, ReadAt: time.Now()}
	} else {
		state.FailedAt, state.Error = time.Now(), err.Error()
	}
	d.reloads.state.Store(&state)
	d.statusChanged()
	if err != nil {
		d.log.Error().Str("by", by).Err(err).Msg("cannot reload: the configuration stays as it was")
		return
	}
	d.log.Info().Str("by", by).Msg("read again: " + changed)
}
