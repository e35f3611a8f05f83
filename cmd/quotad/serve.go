package main

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"quotad/cmd/quotad/config"
	"quotad/jobs/scheduler"
	jobsserver "quotad/jobs/server"
	"quotad/quota/server"
)

// serve runs a daemon until a signal or a failure ends it.
func serve(o options, c *config.Config, read func() (*config.Config, error), s systemd, log zerolog.Logger) error {
	d := newDaemon(c, read, s, log)
	d.acceptLedger = o.acceptLedger
	signal.Notify(d.hangups, syscall.SIGHUP)
	defer signal.Stop(d.hangups)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	defer d.heed(stop)()
	if err := d.start(ctx); err != nil {
		d.stop()
		return err
	}
	err := d.wait(ctx)
	d.stop()
	d.log.Info().Msg("stopped")
	return err
}

// heed has the first signal call stop, and the second one end the patience with
// the passes, until done.
func (d *daemon) heed(stop func()) (done func()) {
	signals, over, heeded := make(chan os.Signal, 2), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	steps := []struct {
		message string
		do      func()
	}{
		{"stopping: another signal ends the passes under way at once", stop},
		{"ending the passes at once", func() { close(d.hurry) }},
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
	return func() {
		signal.Stop(signals)
		close(over)
		<-heeded
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
		Keeper:     d.keeper,
		Tokens:     d.tokens,
		Version:    version(),
		AdminGroup: d.config.Access.AdminGroup,
		JobsUID:    d.jobsUID(),

		Connections:        d.config.Access.Connections,
		ConnectionsPerUser: d.config.Access.ConnectionsPerUser,
		RoomFor:            []int{os.Getuid(), d.jobsUID()},
		Self:               os.Getpid(),

		Observe:   d.watchers.Decided,
		Forbidden: d.events.forbidden,
		ErrorLog:  stdlog.New(complaints{d.log}, "", 0),
		Routes:    append(jobsserver.Routes(d.runner), jobsserver.PlanRoute(d.runner, d.keeper), d.metrics.Route(), server.ReloadRoute(d.reload)),
		Status: map[string]func(context.Context) any{
			"jobs":   jobsserver.Section(d.runner),
			"config": func(context.Context) any { return d.reloads.told.Load() },
		},
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
	d.log.Info().Str("version", version()).Str("config", d.config.File).Str("ledger", d.config.Ledger.Backend).
		Str("socket", d.socket()).Msg("serving")
	return nil
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
func (d *daemon) runJobs(ctx context.Context) error {
	var err error
	if d.ticks, err = scheduler.New(d.runner.Tick, d.watchers.Trouble); err != nil {
		return err
	}
	if err := d.feedWatchdog(); err != nil {
		return err
	}
	d.onStop("end the passes under way", d.endPasses)
	d.runner.Start(ctx)
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

// warn tells of limits that the schedule does not fit. To find them takes longer
// than a service manager should wait for.
func (d *daemon) warn(c *config.Config) {
	for _, warning := range c.Warnings() {
		d.log.Warn().Str("config", warning.File).Int("line", warning.Line).Str("key", warning.Key).Msg(warning.Message)
	}
}
