package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/metrics"
	"quotad/jobs"
	"quotad/jobs/plan"
	"quotad/jobs/process"
	"quotad/jobs/scheduler"
	"quotad/quota/api"
)

// ownLauncher runs commands as our own user: those of events, and those that print a key. They inherit none of
// the capabilities that quotad has to launch passes as another user.
func (d *daemon) ownLauncher() (launcher process.Launcher, err error) {
	launcher = process.Launcher{Cgroups: d.config.Passes.CgroupRoot}
	if d.config.Passes.User != nil {
		launcher.User, err = process.OwnUser()
	}
	return launcher, err
}

// openRunner opens the runner of the jobs, with what it kept of them.
func (d *daemon) openRunner() (err error) {
	if root := d.config.Passes.CgroupRoot; root != "" {
		if err := process.CheckCgroups(root); err != nil {
			d.log.Warn().Err(err).Msg("passes get no cgroup: what a pass leaves in a session of its own (setsid) is not ended with it")
		}
	}
	c := jobs.Config{
		Jobs: d.config.Jobs, Gate: d.service, Launcher: d.launcher, Tokens: d.tokens, OnEvent: d.emit, Now: time.Now,
		Dir: d.statePath("jobs"), Socket: d.socket(), Environ: passEnviron(d.config.Passes.User), EndLeftover: process.EndLeftover,
		Name: d.config.Name,
	}
	if d.proxy != nil {
		c.Proxy = d.proxy.AddressFor
	}
	if d.shared != nil {
		c.Hosts = d.jobHosts
	}
	if d.runner, err = jobs.Open(c); err != nil {
		return err
	}
	d.planner = &plan.Planner{Runner: d.runner, Service: d.service}
	d.metrics.Watch(metrics.Sources{Service: d.service, Observer: d.observer, Troubles: d.troubles})
	return nil
}

// jobHosts returns what names the daemons on a ledger that hosts share.
func (d *daemon) jobHosts() (list []jobs.Daemon, age time.Duration, known bool) {
	rows, age, known := d.ledger.Hosts()
	for _, row := range rows {
		list = append(list, jobs.Daemon{ID: row.ID, Name: row.Name, Jobs: row.Jobs, Ago: row.Ago, Self: row.Self})
	}
	return list, age, known
}

// passEnviron is our own environment, as passes inherit it: with their own home.
func passEnviron(user *process.User) []string {
	if user == nil {
		return os.Environ()
	}
	environ := slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "HOME=") })
	return append(environ, "HOME="+user.Home)
}

// openSchedule makes the schedule, whose loop also sends signs of life to systemd.
func (d *daemon) openSchedule() (err error) {
	if d.schedule, err = scheduler.New(d.runner.Tick); err != nil {
		return err
	}
	d.onStop("end the schedule", d.schedule.Stop)
	if every := d.systemd.watchdog / beats; every > 0 {
		d.schedule.Beat(every, func() { d.beat(every) })
	}
	return nil
}

// beats is how often the daemon may prove that it is alive before systemd
// takes it for dead: one slow answer must not end it.
const beats = 4

// beat reports to systemd that quotad is alive, if callers are answered.
func (d *daemon) beat(within time.Duration) {
	if err := answers(&api.Client{Socket: d.socket()}, within); err != nil {
		d.log.Error().Err(err).Dur("within_ms", within).Msg("the API does not answer: no sign of life is sent to systemd")
		return
	}
	d.notifySystemd("WATCHDOG=1")
}

// runJobs begins with what a killed daemon left, what was missed, and what is to
// run at the start. Then the schedule holds.
func (d *daemon) runJobs() error {
	d.atStop(d.endPasses)
	d.runner.Start(d.ask)
	// The runner has made up for the slots until here, or recorded them as missed.
	for _, job := range d.config.Jobs {
		if err := d.schedule.Set(job.Name, job.Schedule); err != nil {
			return err
		}
	}
	d.schedule.Start()
	return nil
}

// endPasses begins no further pass. Those under way may end by themselves within drain, and are
// then asked to end. The end of force leaves them no time.
func (d *daemon) endPasses() {
	ask, cancel := context.WithCancel(d.force)
	defer cancel()
	defer time.AfterFunc(d.config.Passes.Drain, func() {
		d.log.Info().Stringer("drain", d.config.Passes.Drain).Msg("asking the passes to end")
		cancel()
	}).Stop()
	d.runner.Stop(ask, d.force)
}

// jobsUID is the user of jobs, who without a run token may only read; 0: no such user is known.
// If you start quotad by hand, jobs run as you and may do what you may.
func (d *daemon) jobsUID() int {
	switch {
	case d.config.Passes.User != nil:
		return d.config.Passes.User.UID
	case d.systemd.api != nil:
		return os.Getuid()
	default:
		return 0
	}
}

// makeJobDirs makes the directories in which jobs keep files, if passes run as another user. That user owns
// them, and may enter those above but not list them. The rest of the state directory stays ours alone.
func (d *daemon) makeJobDirs(c *config.Config) error {
	if c.Passes.User == nil {
		return nil
	}
	if err := makeEnterable(c.StateDir); err != nil {
		return err
	}
	for _, job := range c.Jobs {
		if err := cmp.Or(makeEnterable(c.DataDir()), makeFor(job.Files, c.Passes.User)); err != nil {
			return fmt.Errorf("cannot make a directory for the passes of %q: %w", job.Name, err)
		}
	}
	return nil
}

// makeEnterable makes a directory that every user may enter, and we alone may list.
func makeEnterable(dir string) error {
	const enter = 0o001
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&enter != 0 {
		return err
	}
	return os.Chmod(dir, info.Mode().Perm()|enter)
}

// makeFor makes a directory for a user. One that is there and is not ours stays as it is.
func makeFor(dir string, user *process.User) error {
	if err := os.Mkdir(dir, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		return err
	}
	return os.Lchown(dir, user.UID, user.GID)
}
