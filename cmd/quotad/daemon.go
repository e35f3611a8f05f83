package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/metrics"
	"quotad/cmd/quotad/notify"
	"quotad/jobs"
	"quotad/jobs/plan"
	"quotad/jobs/process"
	"quotad/jobs/scheduler"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/boltledger"
	"quotad/quota/clientlimit"
	"quotad/quota/proxy"
	"quotad/quota/redisledger"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
)

// A daemon is everything that runs of one configuration. Open puts it together, live
// sets it going, and stop takes it apart, in the reverse order.
type daemon struct {
	*supervisor
	config *config.Config

	events   events
	metrics  *metrics.Metrics
	notifier *notify.Notifier

	ledger     *slidinglog.Ledger
	service    *quota.Service
	clients    *clientlimit.Service
	clientFile *boltledger.Clients // nil until there are clients beside an embedded ledger
	observer   *upstream.Observer  // of what the upstreams answer
	silences   silences
	shared     *redisledger.Store // nil of an embedded ledger
	tokens     *jobs.Tokens
	remote     *remote          // callers on other hosts
	proxy      *proxy.Proxy     // nil: there is none
	reaper     *process.Reaper  // of what passes leave behind
	cgroups    *process.Cgroups // of passes; nil: they get none
	tasks      uint64           // that there may be before a pass cannot start another one
	runner     *jobs.Runner
	planner    *plan.Planner
	ticks      *scheduler.Scheduler

	api     *server.Server // that the door leads to
	scraped net.Listener   // the address of the metrics; nil: there is none
	reloads reloads
	status  *statusNotifier

	undo     []func()       // what stop does, the last one first
	proxying sync.WaitGroup // for the listener of the proxy
}

// newDaemon returns a daemon of the supervisor's configuration.
func newDaemon(s *supervisor) *daemon {
	c := s.config
	d := &daemon{supervisor: s, config: c, tokens: &jobs.Tokens{}, metrics: metrics.New(api.BuildVersion()), remote: newRemote(c.Remote)}
	d.reloads.told.Store(&api.Configuration{File: c.File, ReadAt: time.Now()})
	d.reloads.remember(c)
	d.status = newStatusNotifier(func(ctx context.Context) string { return d.summary(ctx).String() },
		func(line string) { d.tellSystemd("STATUS=" + line) })
	d.notifier = notify.NewNotifier(c.StateDir, d.events.emit)
	d.silences.emit = d.events.emit
	d.events.sinks = []func(any){
		newEventLog(d.log).record, d.metrics.Record, notify.NewMonitor(d.events.emit).Record, d.notifier.Record, d.status.record, d.silences.record,
	}
	return d
}

// open is the order of things: the state directory is ours alone before
// anything is read there; the ledger decides before the socket answers. What can fail,
// fails here. After an error, stop closes what had been opened, and a later daemon can be
// opened in the place of this one.
func (d *daemon) open(ask context.Context) error {
	return inOrder(ask,
		d.prepareLaunches,
		d.lockState,
		d.openSocket,
		d.startNotifier,
		d.openWorkDirs,
		d.openLedger,
		d.openMetrics,
		d.openProxy,
		d.openRunner,
		d.openAPI,
		d.openRemote,
		d.openSchedule,
	)
}

// live begins what the daemon does: the socket answers by now, before the first pass
// asks. An error ends the process.
func (d *daemon) live() error {
	d.sayWhatJobsShare()
	return inOrder(d.ask, d.serve, d.runJobs, d.openReloads, d.ready)
}

// inOrder takes steps until one fails. The end of ask asks them to give up.
func inOrder(ask context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
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
	d.tasks, err = d.reserve(d.config.Passes.User)
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
		OnEvent:     d.events.emit,
		Dir:         d.statePath("jobs"),
		Socket:      d.socket(),
		Proxy:       d.proxyAddress,
		Environ:     d.passEnviron(),
		Parallel:    d.config.Passes.Parallel,
		BootID:      self.BootID,
		EndLeftover: process.EndLeftover,
		Now:         time.Now,
		Store:       d.jobStore(),
		Host:        hostName(),
	})
	if err != nil {
		return err
	}
	d.planner = plan.NewPlanner(d.runner, d.service)
	d.metrics.WatchRemote(d.remote.state)
	d.metrics.WatchLimits(d.service, d.observer, d.planner.Forecast)
	return nil
}

// socket is where the API is served, as callers reach it.
func (s *supervisor) socket() string { return s.callers.Addr().String() }
