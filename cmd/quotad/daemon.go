package main

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

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

// A daemon is everything that runs. Open puts it together, start begins its work, and stop takes it apart in the
// reverse order.
type daemon struct {
	options options
	systemd systemd
	stderr  io.Writer
	log     zerolog.Logger
	config  *config.Config // of the start
	hostID  string         // drawn when the state directory was new

	ask, force context.Context // see handleSignals
	hangups    chan os.Signal
	failed     chan error // why the process must end

	sinks    []func(event any) // of events
	metrics  *metrics.Metrics
	notifier *notify.Notifier
	denials  *server.Denials

	ledger       *slidinglog.Ledger
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
	launcher     jobs.Launcher // of passes
	runner       *jobs.Runner
	planner      *plan.Planner
	schedule     *scheduler.Scheduler

	api       *server.Server
	callers   net.Listener // the socket of the API
	metricsAt net.Listener // the address of the metrics; nil: there is none
	reloads   reloads
	changed   chan struct{} // holds one if the daemon is to look at itself soon
	urgent    atomic.Bool   // the next look is to report troubles
	facts     *facts
	inForce   atomic.Pointer[config.Config]
	fits      atomic.Pointer[fitsOf] // of the configuration in force, or of the one before until it is known

	began time.Time
	undo  []func() // what stop does, the last one first
}

// emit passes an event to every sink, in their order and before it returns, so sinks must return
// soon. Many goroutines emit at the same time. The package in which an event happens defines its
// type: a server.Event or Attempt of the API, a slidinglog.Event, the events of package jobs, and a
// notify.Event, Result or Output, which are made from other events.
func (d *daemon) emit(event any) {
	for _, sink := range d.sinks {
		sink(event)
	}
}

// newDaemon returns a daemon of a configuration.
func newDaemon(c *config.Config, o options, s systemd, stderr io.Writer) *daemon {
	d := &daemon{
		options: o, systemd: s, stderr: stderr, log: newLogger(stderr), config: c, callers: s.api, hangups: make(chan os.Signal, 1), failed: make(chan error, 1),
		metrics: metrics.New(api.BuildVersion()), tokens: &jobs.Tokens{}, denials: new(server.Denials), changed: make(chan struct{}, 1),
		launcher: process.Launcher{Cgroups: c.Passes.CgroupRoot, User: c.Passes.User},
		began:    time.Now(),
	}
	setLevel(c.Log.Level)
	d.inForce.Store(c)
	d.fits.Store(&fitsOf{})
	d.remote.SetCallers(c.Callers)
	d.reloads.state.Store(&api.Configuration{File: c.File, ReadAt: time.Now()})
	d.notifier = notify.NewNotifier(c.StateDir, d.emit)
	d.sinks = []func(any){
		eventLog{d.log, &refusals{}, &sync.Mutex{}}.record, d.metrics.Record, d.denials.Record, notify.NewWatch(d.emit, d.notifier.Below, time.Now).Record, d.notifier.Record, d.recordFacts,
		d.recordExit,
	}
	return d
}

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

// gcPercent lets the heap grow to four times of what is live before it is collected.
// Some 4 MB are: by default they would be collected every thousand requests, for a
// fifth of the CPU of each.
const gcPercent = 300

// memoryLimit is what the heap grows to at most before it is collected, as long as less is live. A new
// host that reads a log of a million entries has up to 90 MB.
const memoryLimit = 160 << 20

// handleSignals sets two contexts. The first signal ends ask, which asks the daemon to stop, and the second one
// ends force, which leaves its passes no time.
func (d *daemon) handleSignals() {
	var endAsk, endForce context.CancelFunc
	d.ask, endAsk = context.WithCancel(context.Background())
	d.force, endForce = context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(d.hangups, syscall.SIGHUP) // see startReloads
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

// fail ends the process, unless err is nil or the process ends already.
func (d *daemon) fail(err error) {
	if err == nil {
		return
	}
	select {
	case d.failed <- err:
	default:
	}
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

// start begins the work: callers are answered, jobs run, and reloads are served.
func (d *daemon) start() error {
	d.serveAPI()
	d.log.Info().Str("version", api.BuildVersion()).Str("config", d.config.File).Str("ledger", d.config.Ledger.Backend).
		Str("socket", d.socket()).Msg("serving")
	if isTerminal(d.stderr) {
		d.log.Info().Msg("ask: " + askCommand(d.socket()))
	}
	d.checkCgroups()
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

// answerTime is the time for requests that are in flight when a listener stops.
const answerTime = 5 * time.Second

// serveAt answers callers of the API on a listener until stop.
func (d *daemon) serveAt(what string, l net.Listener, c server.FrontendConfig) {
	frontend := server.NewFrontend(c)
	d.serveUntilStop("stop "+what, func() error { return frontend.Serve(l) }, frontend.Shutdown)
}

// askCommand is the shortest command, in the directory where quotad was started, that asks the
// daemon at a socket.
func askCommand(socket string) string {
	command := "quotactl"
	beside := filepath.Join(filepath.Dir(os.Args[0]), command)
	if _, err := exec.LookPath(command); err != nil && strings.ContainsRune(beside, filepath.Separator) {
		command = beside // as quotad itself was named
	}
	if found, err := filepath.Abs(api.FindSocket("")); err == nil && found == socket {
		return command
	}
	return command + " --socket " + socket
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
	kills, unlock, err := lockStateDir(d.config.StateDir)
	if err != nil {
		return err
	}
	d.onStop("unlock the state directory", unlock)
	d.facts = newFacts(kills)
	return nil
}

// socket is where the API is served, as callers reach it.
func (d *daemon) socket() string { return d.callers.Addr().String() }

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
	if d.config.Metrics.Listen == "" {
		return nil
	}
	if d.metricsAt, err = net.Listen("tcp", d.config.Metrics.Listen); err != nil {
		return fmt.Errorf("cannot serve metrics: %w", err)
	}
	d.atStop(func() { d.metricsAt.Close() }) // the frontend may have closed it
	return nil
}

// serveAPI answers callers on the socket. At the address of the metrics it answers scrapes, and whether the daemon is
// well; nothing else.
func (d *daemon) serveAPI() {
	bounds := server.FrontendConfig{
		Handler:    d.api,
		AdminGroup: d.config.Access.AdminGroup, Self: os.Getpid(), ErrorLog: stdlog.New(complaints{d.log}, "", 0),
	}
	d.serveAt("the API", d.callers, bounds)
	if d.metricsAt != nil {
		bounds.Handler = d.api.Only("/metrics", "/healthz", "/readyz")
		d.serveAt("the metrics", d.metricsAt, bounds)
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

		Emit:    d.emit,
		Denials: d.denials,
		Routes:  routes,
		Status:  sections,
	})
	return err
}

// warn logs what the file hardly means, such as limits that the schedule does not fit.
func (d *daemon) warn(c *config.Config) {
	fits := fitsOf{}
	for _, f := range c.Fits() {
		fits[f.Credential+" "+f.Limit] = f
	}
	d.fits.Store(&fits)
	for _, warning := range c.Warnings() {
		d.log.Warn().Str("config", warning.File).Int("line", warning.Line).Str("key", warning.Key).Msg(warning.Message)
	}
}
