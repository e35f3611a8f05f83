package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	sdnotify "github.com/coreos/go-systemd/v22/daemon"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota/api"
)

// startReloads begins to serve SIGHUP and the operators' reloads.
func (d *daemon) startReloads() {
	serve := func(so bool) {
		d.reloading.Lock()
		d.reloads = so
		d.reloading.Unlock()
	}
	serve(true)
	d.atStop(func() { serve(false) })
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
// an error, not at all. Runs under way continue as they began. The log comes last: a reader who finds the result there
// finds that the status agrees.
func (d *daemon) reload(by string) (api.Reloaded, error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	if !d.reloads {
		return api.Reloaded{}, errors.New("quotad is starting or stopping: it reads its configuration at the next start")
	}
	// A Type=notify-reload service reports when it began.
	d.notifySystemd("RELOADING=1\n" + sdnotify.SdNotifyMonotonicUsec())
	was, file := d.inForce.Load(), *d.file.Load()
	is, err := d.replace(was)
	d.notifySystemd("READY=1")
	if err != nil {
		file.FailedAt, file.Error = time.Now(), err.Error()
	} else {
		file = api.Configuration{File: file.File, ReadAt: time.Now()}
	}
	d.file.Store(&file)
	d.lookSoon()
	if err != nil {
		d.log.Error().Str("by", by).Err(err).Msg("cannot reload: the configuration stays as it was")
		return api.Reloaded{}, err
	}
	answer := api.Reloaded{File: d.config.File, Changed: was.Changed(is)}
	for _, one := range is.Warnings() {
		answer.Warnings = append(answer.Warnings, one.Key+": "+one.Message)
	}
	d.log.Info().Str("by", by).Msg("read again: " + answer.Changed)
	d.warn(is)
	return answer, nil
}

// replace replaces the configuration in force, and returns the one that is now.
func (d *daemon) replace(was *config.Config) (*config.Config, error) {
	is, err := load(d.options.config, d.systemd.host())
	if err != nil {
		return nil, err
	}
	keys := was.NeedsRestart(is)
	if d.systemd.api != nil { // that is the socket, whatever the file names
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == "socket" })
	}
	if len(keys) > 0 { // a running daemon could follow in part only
		return nil, fmt.Errorf("%s cannot change while quotad runs: restart it, or leave that as it was", strings.Join(keys, ", "))
	}
	for _, c := range was.Credentials { // passes would be denied by a configuration that they did not begin under
		_, stays := is.Outages[c.Name] // each credential has one
		if runs := d.runner.Spending(c.Name); len(runs) > 0 && !stays {
			return nil, fmt.Errorf("credential %q cannot be removed while a run spends from it: wait for its end, or quotactl stop %s", c.Name, runs[0])
		}
	}
	if err := d.apply(was, is); err != nil {
		return nil, errors.Join(err, d.apply(is, was))
	}
	d.inForce.Store(is)
	return is, nil
}

// apply carries out what is another.
func (d *daemon) apply(was, is *config.Config) error {
	type spending struct{ credentials, outages, profiles any }
	of := func(c *config.Config) spending { return spending{c.Credentials, c.Outages, c.Profiles} }
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
	removed := make(map[string]string, len(was))
	for _, job := range was {
		removed[job.Name] = job.Schedule.String()
	}
	for _, job := range is {
		if removed[job.Name] != job.Schedule.String() {
			if err := d.schedule.Set(job.Name, job.Schedule); err != nil {
				return err
			}
		}
		delete(removed, job.Name)
	}
	for name := range removed {
		if err := d.schedule.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// warn logs what the file hardly means, such as limits that the schedule does not fit.
func (d *daemon) warn(c *config.Config) {
	for _, warning := range c.Warnings() {
		d.log.Warn().Str("config", warning.File).Int("line", warning.Line).Str("key", warning.Key).Msg(warning.Message)
	}
}
