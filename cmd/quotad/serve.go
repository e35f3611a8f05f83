package main

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/jobs/scheduler"
	jobsserver "quotad/jobs/server"
	"quotad/quota/api"
	"quotad/quota/server"
)

// serve runs a daemon until a signal or a failure ends it.
func serve(o options, c *config.Config, read func() (*config.Config, error), s systemd, log zerolog.Logger) error {
	d := newDaemon(c, read, s, log)
	d.acceptLedger = o.acceptLedger
	signal.Notify(d.hangups, syscall.SIGHUP)
	defer signal.Stop(d.hangups)
	ask, force, done := d.heedSignals()
	defer done()
	if err := d.start(ask, force); err != nil {
		d.stop()
		return err
	}
	collectLater()
	err := d.wait(ask)
	d.stop()
	d.log.Info().Msg("stopped")
	return err
}

// gcPercent lets the heap grow to four times of what is live before it is collected.
// Some 4 MB are: by default they would be collected every thousand requests, for a
// fifth of the CPU of each.
const gcPercent = 300

// collectLater sets gcPercent, unless whoever started us says something else.
func collectLater() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// heedSignals returns two contexts, until done: the first signal ends ask, by which the
// daemon is asked to stop, and the second one force, which leaves its passes no time.
func (d *daemon) heedSignals() (ask, force context.Context, done func()) {
	ask, endAsk := context.WithCancel(context.Background())
	force, endForce := context.WithCancel(context.Background())
	signals, over, heeded := make(chan os.Signal, 2), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	steps := []struct {
		message string
		do      func()
	}{
		{"stopping: another signal ends the passes under way at once", endAsk},
		{"ending the passes at once", endForce},
	}
	go func() {
		defer close(heeded)
		for _, step := range steps {
			select {
			case s := <-signals:
				d.log.Info().Stringer("signal", s).Msg(step.message)
				step.do()
			case <-over:
				return
			}
		}
	}()
	return ask, force, func() {
		signal.Stop(signals)
		close(over)
		<-heeded
		endAsk()
		endForce()
	}
}

// wait returns when the daemon is to stop; the error is why it must.
func (d *daemon) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-d.failed:
		return err
	}
}

// serveAPI answers on the socket from here on.
func (d *daemon) serveAPI(context.Context) error {
	s, err := server.New(server.Config{
		Service:    d.service,
		Clients:    d.clients,
		Observer:   d.observer,
		Tokens:     d.tokens,
		Version:    api.BuildVersion(),
		AdminGroup: d.config.Access.AdminGroup,
		JobsUID:    d.jobsUID(),

		Connections:        d.config.Access.Connections,
		ConnectionsPerUser: d.config.Access.ConnectionsPerUser,
		RoomFor:            []int{os.Getuid(), d.jobsUID()},
		Self:               os.Getpid(),

		Observe:     emitting[server.Event](&d.events),
		Forbidden:   emitting[server.Attempt](&d.events),
		ClientReset: emitting[server.ClientReset](&d.events),
		ErrorLog:    stdlog.New(complaints{d.log}, "", 0),
		Routes:      append(jobsserver.Routes(d.runner), jobsserver.PlanRoute(d.runner, d.service), d.metrics.Route(), server.ReloadRoute(d.reload)),
		Status:      d.sections(),
	})
	if err != nil {
		return err
	}
	listener, err := d.listen()
	if err != nil {
		return err
	}
	d.metrics.WatchConnections(s.Connections)
	d.onStop("stop the API", func() error {
		err := shutdown(s)
		d.serving.Wait()
		return err
	})
	d.serving.Go(func() { d.fail(s.Serve(listener)) })
	if err := d.serveMetrics(s); err != nil {
		return err
	}
	d.log.Info().Str("version", api.BuildVersion()).Str("config", d.config.File).Str("ledger", d.config.Ledger.Backend).
		Str("socket", d.socket()).Msg("serving")
	return nil
}

// sections are those of the status, beside quota's own.
func (d *daemon) sections() map[string]func(context.Context) any {
	sections := map[string]func(context.Context) any{
		"jobs":   jobsserver.Section(d.runner),
		"config": func(context.Context) any { return d.reloads.told.Load() },
	}
	if d.proxy != nil {
		sections["proxy"] = d.proxySection
	}
	return sections
}

// fail ends the daemon, unless err is nil or something else does already.
func (d *daemon) fail(err error) {
	if err == nil {
		return
	}
	select {
	case d.failed <- err:
	default:
	}
}

// listen returns the socket that systemd passed, or one of our own, which passes
// reach too.
func (d *daemon) listen() (net.Listener, error) {
	if d.systemd.api != nil {
		return d.systemd.api, nil
	}
	l, err := server.Listen(d.config.Socket)
	if user := d.config.Passes.User; err == nil && user != nil {
		if err := os.Chown(d.config.Socket, -1, user.GID); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot open the socket to the passes: %w", err), l.Close())
		}
	}
	return l, err
}

// answerTime is how long requests that are in flight when the API stops may take.
const answerTime = 5 * time.Second

func shutdown(s *server.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	return s.Shutdown(ctx)
}

// runJobs begins with what a killed daemon left, what was missed, and what is to
// run at the start, and goes on with the schedule.
func (d *daemon) runJobs(ask, force context.Context) error {
	var err error
	if d.ticks, err = scheduler.New(d.runner.Tick, d.trouble); err != nil {
		return err
	}
	if err := d.feedWatchdog(); err != nil {
		return err
	}
	d.onStop("end the passes under way", func() error {
		d.endPasses(force)
		return nil
	})
	d.runner.Start(ask)
	// The slots until here are the runner's: it has made up for them, or noted them.
	for _, job := range d.config.Jobs {
		if err := d.ticks.Set(job.Name, job.Schedule); err != nil {
			return err
		}
	}
	d.onStop("end the schedule", d.ticks.Stop)
	d.ticks.Start()
	return nil
}

// endPasses begins no further pass and gives those under way their time: to come to
// their own end, and then, asked to, to end. The end of force leaves them none.
func (d *daemon) endPasses(force context.Context) {
	ask, cancel := context.WithTimeout(force, d.config.Passes.Drain)
	defer cancel()
	defer context.AfterFunc(ask, func() {
		if errors.Is(ask.Err(), context.DeadlineExceeded) {
			d.log.Info().Stringer("drain", d.config.Passes.Drain).Msg("asking the passes to end")
		}
	})()
	d.runner.Stop(ask, force)
}

// trouble tells of what the schedule could not do.
func (d *daemon) trouble(job string, err error) { d.events.emit(jobs.Trouble{Job: job, Err: err}) }

// warn tells of limits that the schedule does not fit, and of those that only observe. To
// find the first takes longer than a service manager should wait for.
func (d *daemon) warn(c *config.Config) {
	for _, warning := range append(c.Warnings(), c.Reminders()...) {
		d.log.Warn().Str("config", warning.File).Int("line", warning.Line).Str("key", warning.Key).Msg(warning.Message)
	}
}

// serveMetrics answers scrapes at the configured loopback address too, and at
// nothing else there but whether the daemon is well.
func (d *daemon) serveMetrics(s *server.Server) error {
	if d.config.Metrics == "" {
		return nil
	}
	listener, err := net.Listen("tcp", d.config.Metrics)
	if err != nil {
		return fmt.Errorf("cannot serve metrics: %w", err)
	}
	d.serving.Go(func() { d.fail(s.ServeOnly(listener, "/metrics", "/healthz", "/readyz")) })
	d.log.Info().Stringer("address", listener.Addr()).Msg("serving metrics")
	return nil
}
