package main

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/metrics"
	"quotad/cmd/quotad/notify"
	"quotad/jobs"
	"quotad/jobs/process"
	"quotad/jobs/scheduler"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/boltledger"
	"quotad/quota/clientlimit"
	"quotad/quota/proxy"
	"quotad/quota/redisledger"
	"quotad/quota/upstream"
)

// A daemon is everything that runs. Start puts it together and stop takes it
// apart, in the reverse order.
type daemon struct {
	config  *config.Config
	systemd systemd
	log     zerolog.Logger

	events   events
	metrics  *metrics.Metrics
	notifier *notify.Notifier

	service    *quota.Service
	clients    *clientlimit.Service
	clientFile *boltledger.Clients // nil until there are clients beside an embedded ledger
	observer   *upstream.Observer  // of what the upstreams answer
	silences   silences
	shared     *redisledger.Ledger // nil of an embedded ledger
	hosts      jobs.Hosts          // beside that one
	tokens     *jobs.Tokens
	proxy      *proxy.Proxy     // nil: there is none
	reaper     *process.Reaper  // of what passes leave behind
	cgroups    *process.Cgroups // of passes; nil: they get none
	tasks      uint64           // that there may be before a pass cannot start another one
	runner     *jobs.Runner
	ticks      *scheduler.Scheduler

	acceptLedger bool // see options

	read    func() (*config.Config, error) // the configuration, as it is now
	reloads reloads
	hangups chan os.Signal
	status  *statusNotifier

	failed chan error // what keeps the daemon from going on
	undo   []func()   // what stop does, the last one first

	serving  sync.WaitGroup // for the listeners of the API
	proxying sync.WaitGroup // for that of the proxy
}

func newDaemon(c *config.Config, read func() (*config.Config, error), s systemd, log zerolog.Logger) *daemon {
	d := &daemon{
		config: c, systemd: s, log: log, tokens: &jobs.Tokens{},
		read: read, hangups: make(chan os.Signal, 1),
		failed: make(chan error, 1), metrics: metrics.New(api.BuildVersion()),
	}
	d.reloads.told.Store(&api.Configuration{File: c.File, ReadAt: time.Now()})
	d.reloads.remember(c)
	d.status = newStatusNotifier(func(ctx context.Context) string { return d.summary(ctx).String() },
		func(line string) { d.tellSystemd("STATUS=" + line) })
	d.notifier = notify.NewNotifier(c.StateDir, d.events.emit)
	d.silences.emit = d.events.emit
	d.events.sinks = []func(any){
		newEventLog(log).observe, d.metrics.Observe, notify.NewMonitor(d.events.emit).Observe, d.notifier.Observe, d.status.observe, d.silences.observe,
	}
	return d
}

// start is the order of things: the state directory is ours alone before
// anything is read there; the ledger decides before the socket answers; the
// socket answers before the first pass asks. After an error, stop takes apart
// what had been started. The end of ask asks it to give up, and that of force leaves
// passes no time.
func (d *daemon) start(ask, force context.Context) error {
	d.sayWhatJobsShare()
	for _, step := range []func(context.Context) error{
		d.prepareLaunches,
		d.lockState,
		d.startNotifier,
		d.openWorkDirs,
		d.openLedger,
		d.openProxy,
		d.openRunner,
		d.serveAPI,
		func(ask context.Context) error { return d.runJobs(ask, force) },
		d.openReloads,
		d.ready,
	} {
		if err := step(ask); err != nil {
			return err
		}
	}
	return nil
}

// stop ends in this order: no new runs, the passes under way, the API, through
// which they settle to the last, the ledger.
func (d *daemon) stop() {
	for i := len(d.undo) - 1; i >= 0; i-- {
		d.undo[i]()
	}
	d.undo = nil
}

// onStop adds a step to stop.
func (d *daemon) onStop(what string, step func() error) {
	d.undo = append(d.undo, func() {
		if err := step(); err != nil {
			d.log.Error().Err(err).Msg("cannot " + what)
		}
	})
}

// prepareLaunches comes before anything is launched.
func (d *daemon) prepareLaunches(context.Context) (err error) {
	if err := process.KeepDescriptors(); err != nil {
		return err
	}
	// Also with cgroups: the kernel may refuse to start a process in one.
	if d.reaper, err = process.NewReaper(); err != nil {
		return err
	}
	d.onStop("end the reaping of orphans", d.reaper.Close)
	d.cgroups = process.NewCgroups(d.config.Passes.CgroupRoot, func(dir string, processes int) {
		d.log.Warn().Str("cgroup", dir).Int("processes", processes).Msg("ended what ran in a cgroup that is no pass's")
	})
	d.tasks, err = process.ReserveTasks(d.config.Passes.User)
	return err
}

func (d *daemon) lockState(context.Context) error {
	unlock, err := lockStateDir(d.config.StateDir)
	if err != nil {
		return err
	}
	d.onStop("unlock the state directory", unlock)
	return nil
}

// startNotifier comes early, so that it is told of everything to the last.
func (d *daemon) startNotifier(context.Context) error {
	launcher, err := d.eventLauncher()
	if err != nil {
		return err
	}
	d.notifier.Configure(d.config.OnEvent)
	d.notifier.Start(launcher)
	d.onStop("end the commands of events", d.notifier.Stop)
	return nil
}

func (d *daemon) statePath(name string) string { return filepath.Join(d.config.StateDir, name) }

func (d *daemon) openRunner(context.Context) error {
	self, err := process.Identify(os.Getpid())
	if err != nil {
		return err
	}
	if err := d.cgroups.Check(); err != nil {
		d.log.Warn().Err(err).Msg("passes get no cgroup: what they leave is known by its session and environment")
	}
	d.runner, err = jobs.Open(jobs.Config{
		Jobs: d.config.Jobs,
		Gate: d.service,
		Launcher: process.Launcher{
			Cgroups: d.cgroups, Reaper: d.reaper, Tasks: d.tasks, User: d.config.Passes.User,
		},
		Tokens:      d.tokens,
		Observe:     d.events.emit,
		Dir:         d.statePath("jobs"),
		Socket:      d.socket(),
		Proxy:       d.proxyAddress,
		Environ:     d.passEnviron(),
		Parallel:    d.config.Passes.Parallel,
		BootID:      self.BootID,
		EndLeftover: process.EndLeftover,
		Now:         time.Now,
		Hosts:       d.hosts,
		Host:        hostName(),
	})
	return err
}

// socket is where the API is served, as callers reach it.
func (d *daemon) socket() string {
	if d.systemd.api != nil {
		return d.systemd.api.Addr().String()
	}
	return d.config.Socket
}
