package main

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/metrics"
	"quotad/cmd/quotad/notify"
	"quotad/jobs"
	"quotad/jobs/process"
	jobsserver "quotad/jobs/server"
	"quotad/quota/api"
	"quotad/quota/server"
)

// newDaemon returns a daemon of a configuration.
func newDaemon(c *config.Config, o options, s systemd, stderr io.Writer) *daemon {
	d := &daemon{
		options: o, systemd: s, stderr: stderr, log: newLogger(stderr), config: c, callers: s.api,
		hangups: make(chan os.Signal, 1), failed: make(chan error, 1), changed: make(chan struct{}, 1),
		metrics: metrics.New(api.BuildVersion()), tokens: &jobs.Tokens{}, denials: new(server.Denials), facts: newFacts(), diskOf: diskOf,
		launcher: process.Launcher{Cgroups: c.Passes.CgroupRoot, User: c.Passes.User},
	}
	setLevel(c.Log.Level)
	d.inForce.Store(c)
	d.remote.SetCallers(c.Callers)
	d.file.Store(&api.Configuration{File: c.File, ReadAt: time.Now()})
	d.notifier = notify.NewNotifier(c.StateDir, d.emit)
	d.sinks = []func(any){
		(&eventLog{log: d.log}).record, d.metrics.Record, d.denials.Record, notify.NewWatch(d.emit, d.notifier.Below, time.Now).Record,
		d.notifier.Record, d.recordFacts,
	}
	return d
}

const (
	// gcPercent lets the heap grow to four times of what is live, some 4 MB, before it is collected. By default it would
	// be collected every thousand requests, for a fifth of the CPU of each.
	gcPercent = 300
	// memoryLimit is what the heap grows to at most before it is collected, as long as less is live. A new host that
	// reads a log of a million entries has up to 90 MB.
	memoryLimit = 160 << 20
)

// run serves until a signal asks it to end, or an error ends it.
func (d *daemon) run() error {
	d.handleSignals()
	defer d.stop()
	if err := d.open(); err != nil {
		return err
	}
	if err := d.start(); err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	select {
	case <-d.ask.Done():
		return nil
	case err := <-d.failed:
		return err
	}
}

// handleSignals sets two contexts. The first signal ends ask, which asks the daemon to stop, and the second one
// ends force, which leaves its passes no time.
func (d *daemon) handleSignals() {
	var endAsk, endForce context.CancelFunc
	d.ask, endAsk = context.WithCancel(context.Background())
	d.force, endForce = context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(d.hangups, syscall.SIGHUP)
	// When the reader of the log ends, its lines are lost, and quotad continues. The channel is never read.
	// An ignored signal would be ignored by every job too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() { // for as long as the process lives
		d.log.Info().Stringer("signal", <-signals).Msg("stopping: another signal ends the passes under way at once")
		endAsk()
		d.log.Info().Stringer("signal", <-signals).Msg("ending the passes at once")
		endForce()
	}()
}

// open opens what the daemon works with, in this order: nothing is read in the state directory
// before it is ours alone, and the ledger decides before the socket answers. What can fail,
// fails here.
func (d *daemon) open() error {
	for _, step := range []func() error{
		process.KeepDescriptors,
		d.lockState,
		d.openSocket,
		d.startNotifier,
		func() error { return d.makeJobDirs(d.config) },
		d.openLedger,
		d.openProxy,
		d.openRunner,
		d.openAPI,
		d.openMetrics,
		d.openRemote,
		d.openSchedule,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// start begins the work: callers are answered, jobs run, and reloads are served.
func (d *daemon) start() error {
	d.serve("the API", server.NewFrontend(d.frontend()), d.callers)
	d.log.Info().Str("version", api.BuildVersion()).Str("config", d.config.File).Str("ledger", d.config.Ledger.Backend).
		Str("socket", d.socket()).Msg("serving")
	if err := d.runJobs(); err != nil {
		return err
	}
	d.startReloads()
	d.ready()
	return nil
}

func (d *daemon) lockState() error {
	kills, unlock, err := lockStateDir(d.config.StateDir)
	if err != nil {
		return err
	}
	d.onStop("unlock the state directory", unlock)
	d.facts.kills = kills
	return nil
}

// openSocket opens a socket, which passes reach too, unless systemd passed one.
func (d *daemon) openSocket() error {
	if d.callers != nil {
		return nil
	}
	l, err := server.Listen(d.config.Socket)
	if err != nil {
		return err
	}
	d.callers = l
	d.atStop(func() { l.Close() }) // the frontend may have closed it
	if user := d.config.Passes.User; user != nil {
		if err := os.Chown(d.config.Socket, -1, user.GID); err != nil {
			return fmt.Errorf("cannot open the socket to the passes: %w", err)
		}
	}
	return nil
}

// startNotifier comes early, so that the notifier stops late and runs the commands of all events.
func (d *daemon) startNotifier() error {
	launcher, err := d.ownLauncher()
	if err != nil {
		return err
	}
	d.notifier.Configure(d.config.OnEvent)
	d.notifier.Start(launcher)
	d.atStop(d.notifier.Stop)
	return nil
}

// openAPI makes the server that answers callers.
func (d *daemon) openAPI() error {
	sections := map[string]func(context.Context) any{ // of the status, beside quota's own
		"triage": func(ctx context.Context) any { return d.triage(ctx) },
		"jobs":   jobsserver.Section(d.runner),
		"rates":  jobsserver.RatesSection(d.planner),
		"config": func(context.Context) any { return d.file.Load() },
	}
	d.api = server.New(server.Config{
		Service: d.service, Clients: d.clients, Observer: d.observer, Tokens: d.tokens, Version: api.BuildVersion(),
		AdminGroup: d.config.Access.AdminGroup, JobsUID: d.jobsUID(), Emit: d.emit, Denials: d.denials, Status: sections,
		Routes: append(jobsserver.Routes(d.runner),
			jobsserver.PlanRoute(d.planner), d.metrics.Route(), d.notifyRoute(), server.ReloadRoute(d.reload)),
	})
	return nil
}

// openMetrics answers scrapes, and whether the daemon is well, at an address of its own, if there is one.
func (d *daemon) openMetrics() error {
	if d.config.Metrics.Listen == "" {
		return nil
	}
	l, err := net.Listen("tcp", d.config.Metrics.Listen)
	if err != nil {
		return fmt.Errorf("cannot serve metrics: %w", err)
	}
	c := d.frontend()
	c.Handler = d.api.Only("/metrics", "/healthz", "/readyz")
	d.serve("the metrics", server.NewFrontend(c), l)
	d.log.Info().Stringer("address", l.Addr()).Msg("serving metrics")
	return nil
}

// frontend answers callers on this host.
func (d *daemon) frontend() server.FrontendConfig {
	return server.FrontendConfig{
		Handler: d.api, AdminGroup: d.config.Access.AdminGroup, Self: os.Getpid(), ErrorLog: stdlog.New(complaints{d.log}, "", 0),
	}
}

// ready reports to systemd and the log that the daemon has started. The ledger may
// be away: the order in which a host boots must not keep quotad from starting.
func (d *daemon) ready() {
	s, list := d.troubles(d.ask)
	if health := s.Ledger.Health; !health.Reachable {
		d.log.Warn().Str("ledger", health.State).Msg("the ledger does not decide yet: calls are refused until it does")
	}
	d.notifySystemd("READY=1\nSTATUS=" + statusLine(list, s.Jobs, time.Now()))
	d.onStop("notify systemd", d.stopping)
	d.background(d.watch)
	d.log.Debug().Msg("ready")
	d.warn(d.config)
}

// stopping comes first when the daemon stops. It asks systemd for as much time as the
// passes under way may take to end, and the answers in flight after them.
func (d *daemon) stopping() error {
	most := d.config.Passes.Drain + jobs.KillGrace + answerTime + margin
	return d.systemd.notify(fmt.Sprintf("STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=%d", most.Microseconds()))
}

// margin is for the rest of the stop, on a busy host.
const margin = 10 * time.Second
