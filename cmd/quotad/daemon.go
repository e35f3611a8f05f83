package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/metrics"
	"quotad/cmd/quotad/notify"
	"quotad/jobs"
	"quotad/jobs/plan"
	"quotad/jobs/process"
	"quotad/jobs/scheduler"
	jobsserver "quotad/jobs/server"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/proxy"
	"quotad/quota/redisledger"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
)

// A daemon is everything that runs of one configuration. Open puts it together, start
// begins its work, and stop takes it apart in the reverse order.
type daemon struct {
	*supervisor
	config *config.Config
	hostID string // drawn when the state directory was new

	sinks    []func(event any) // of events
	metrics  *metrics.Metrics
	notifier *notify.Notifier
	refusals *server.Refusals

	ledger       *slidinglog.Ledger
	firstLedger  bool               // there was none here
	shared       *redisledger.Store // nil: the ledger is embedded
	service      *quota.Service
	clients      *clientlimit.Service
	clientCounts *clientlimit.Memory                      // nil beside Redis
	observer     *upstream.Observer                       // of what the upstreams answer
	presets      atomic.Pointer[map[string]config.Preset] // that are in force, by credential
	exits        sync.WaitGroup                           // unexplained ones that are being recorded
	tokens       *jobs.Tokens
	remote       server.Remote // callers on other hosts
	proxy        *proxy.Proxy  // nil: there is none
	runner       *jobs.Runner
	planner      *plan.Planner
	schedule     *scheduler.Scheduler

	api       *server.Server // that the frontend passes requests to
	metricsAt net.Listener   // the address of the metrics; nil: there is none
	reloads   reloads
	changed   chan struct{} // holds one if the daemon is to look at itself soon
	urgent    atomic.Bool   // the next look is to report troubles
	facts     *facts
	inForce   atomic.Pointer[config.Config]
	fits      atomic.Pointer[fitsOf] // of the configuration in force, or of the one before until it is known

	undo []func() // what stop does, the last one first
}

// emit passes an event to every sink, in their order and before it returns, so sinks must return
// soon. Many goroutines emit at the same time. The package in which an event happens defines its
// type: a server.Event or Attempt of the API, a slidinglog.Event, the events of package jobs, and a
// notify.Alert, Result or Output, which are made from other events.
func (d *daemon) emit(event any) {
	for _, sink := range d.sinks {
		sink(event)
	}
}

// newDaemon returns a daemon of the supervisor's configuration.
func newDaemon(s *supervisor) *daemon {
	c := s.config
	d := &daemon{
		supervisor: s, config: c, metrics: metrics.New(api.BuildVersion()), tokens: &jobs.Tokens{}, refusals: server.NewRefusals(),
		changed: make(chan struct{}, 1),
	}
	d.inForce.Store(c)
	d.fits.Store(&fitsOf{})
	d.remote.SetCallers(c.Remote.Callers)
	d.reloads.state.Store(&api.Configuration{File: c.File, ReadAt: time.Now()})
	d.reloads.recordGrace(c)
	d.notifier = notify.NewNotifier(c.StateDir, d.emit)
	d.sinks = []func(any){
		eventLog{d.log, &refusals{}}.record, d.metrics.Record, d.refusals.Record, notify.NewOccurrences(d.emit, time.Now).Record, d.notifier.Record, d.recordFacts,
		d.recordExit, d.recordNotLaunched,
	}
	return d
}

// open opens what the daemon works with, in this order: nothing is read in the state directory
// before it is ours alone, and the ledger decides before the socket answers. What can fail,
// fails here. After an error, stop closes what had been opened, and another daemon can be
// opened.
func (d *daemon) open() error {
	for _, step := range []func() error{
		process.KeepDescriptors,
		d.lockState,
		d.openSocket,
		d.startNotifier,
		func() error { return d.makeJobDirs(d.config) },
		d.openLedger,
		d.openMetrics,
		d.openProxy,
		d.openRunner,
		d.openAPI,
		d.openRemote,
		d.openSchedule,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// start begins the work of a daemon to which the frontend passes requests: jobs run, and reloads are served. An
// error ends the process.
func (d *daemon) start() error {
	d.serveMetrics()
	d.log.Info().Str("version", api.BuildVersion()).Str("config", d.config.File).Str("ledger", d.config.Ledger.Backend).
		Str("socket", d.socket()).Msg("serving")
	d.greet()
	if d.firstLedger {
		d.log.Info().Str("dir", d.statePath(journalDir)).Msg("a new ledger")
	}
	d.checkCgroups()
	d.warnOfSharedUser()
	if err := d.runJobs(); err != nil {
		return err
	}
	d.startReloads()
	d.ready()
	return nil
}

// stop ends in this order: no new runs, the passes under way, the API, through
// which they settle to the last, the ledger.
func (d *daemon) stop() {
	for _, step := range slices.Backward(d.undo) {
		step()
	}
	d.undo = nil
}

// atStop adds a step to stop.
func (d *daemon) atStop(step func()) { d.undo = append(d.undo, step) }

// onStop adds a step to stop that may fail.
func (d *daemon) onStop(what string, step func() error) {
	d.atStop(func() {
		if err := step(); err != nil {
			d.log.Error().Err(err).Msg("cannot " + what)
		}
	})
}

// background runs work until stop, which ends its context and waits for it.
func (d *daemon) background(work func(ctx context.Context)) {
	ctx, end := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() { work(ctx) })
	d.atStop(func() {
		end()
		working.Wait()
	})
}

// serveUntilStop serves a listener until stop, which lets its requests in flight end. An error of
// serve ends the process.
func (d *daemon) serveUntilStop(what string, serve func() error, shutdown func(context.Context) error) {
	var serving sync.WaitGroup
	serving.Go(func() { d.fail(serve()) })
	d.onStop(what, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		err := shutdown(ctx)
		serving.Wait()
		return err
	})
}

func (d *daemon) statePath(name string) string { return filepath.Join(d.config.StateDir, name) }

func (d *daemon) lockState() error {
	unlock, err := lockStateDir(d.config.StateDir)
	if err != nil {
		return err
	}
	d.onStop("unlock the state directory", unlock)
	if d.facts, err = openFacts(d.statePath("troubles.json")); err != nil {
		d.log.Error().Err(err).Msg("cannot know which troubles were reported")
	}
	d.atStop(d.facts.save)
	return nil
}

// openSocket opens a socket, which passes reach too, unless there is one:
// systemd's, or that of an earlier attempt.
func (d *daemon) openSocket() error {
	if d.callers != nil {
		return nil
	}
	l, err := server.Listen(d.config.Socket)
	if err != nil {
		return err
	}
	if user := d.config.Passes.User; user != nil {
		if err := os.Chown(d.config.Socket, -1, user.GID); err != nil {
			return errors.Join(fmt.Errorf("cannot open the socket to the passes: %w", err), l.Close())
		}
	}
	d.callers = l
	return nil
}

// startNotifier comes early, so that the notifier stops late and runs the commands of all events.
func (d *daemon) startNotifier() error {
	launcher, err := d.eventLauncher()
	if err != nil {
		return err
	}
	d.notifier.Configure(d.config.OnEvent)
	d.notifier.Start(launcher)
	d.atStop(d.notifier.Stop)
	return nil
}

// openMetrics opens the address for scrapes, if there is one beside the socket.
func (d *daemon) openMetrics() (err error) {
	if d.config.Metrics == "" {
		return nil
	}
	if d.metricsAt, err = net.Listen("tcp", d.config.Metrics); err != nil {
		return fmt.Errorf("cannot serve metrics: %w", err)
	}
	d.atStop(func() { d.metricsAt.Close() }) // the frontend may have closed it
	return nil
}

// serveMetrics answers scrapes at their address, and whether the daemon is well; nothing else.
func (d *daemon) serveMetrics() {
	d.metrics.WatchConnections(d.frontend.Connections)
	d.onStop("stop the API", d.shut)
	if d.metricsAt != nil {
		d.serving.Go(func() { d.fail(d.frontend.Serve(d.metricsAt, "/metrics", "/healthz", "/readyz")) })
		d.log.Info().Stringer("address", d.metricsAt.Addr()).Msg("serving metrics")
	}
}

// openAPI makes the server that answers callers.
func (d *daemon) openAPI() (err error) {
	sections := map[string]func(context.Context) any{ // of the status, beside quota's own
		"triage": func(ctx context.Context) any { return d.triage(ctx) },
		"jobs":   jobsserver.Section(d.runner),
		"rates":  jobsserver.RatesSection(d.planner),
		"config": func(context.Context) any { return d.reloads.state.Load() },
	}
	if d.proxy != nil {
		sections["proxy"] = d.proxySection
	}
	routes := append(jobsserver.Routes(d.runner),
		jobsserver.PlanRoute(d.planner), d.metrics.Route(), d.notifyRoute(), server.ReloadRoute(d.reload))
	d.api, err = server.New(server.Config{
		Service:    d.service,
		Clients:    d.clients,
		Observer:   d.observer,
		Tokens:     d.tokens,
		Version:    api.BuildVersion(),
		AdminGroup: d.config.Access.AdminGroup,
		JobsUID:    d.jobsUID(),

		Emit:     d.emit,
		Refusals: d.refusals,
		Routes:   routes,
		Status:   sections,
	})
	return err
}

// warn logs limits that the schedule does not fit, and those that are not enforced.
func (d *daemon) warn(c *config.Config) {
	fits := fitsOf{}
	for _, f := range c.Fits() {
		fits[f.Credential+" "+f.Limit] = f
	}
	d.fits.Store(&fits)
	for _, warning := range append(c.Warnings(), c.Reminders()...) {
		d.log.Warn().Str("config", warning.File).Int("line", warning.Line).Str("key", warning.Key).Msg(warning.Message)
	}
}
