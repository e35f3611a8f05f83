package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/jobs/scheduler"
	jobsserver "quotad/jobs/server"
	"quotad/quota/api"
	"quotad/quota/server"
)

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
func (s *supervisor) heedSignals() (ask, force context.Context, done func()) {
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
			case got := <-signals:
				s.log.Info().Stringer("signal", got).Msg(step.message)
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

// openAPI makes what answers callers.
func (d *daemon) openAPI(context.Context) (err error) {
	d.api, err = server.New(server.Config{
		Door:       d.door,
		Service:    d.service,
		Clients:    d.clients,
		Observer:   d.observer,
		Tokens:     d.tokens,
		Version:    api.BuildVersion(),
		AdminGroup: d.config.Access.AdminGroup,
		JobsUID:    d.jobsUID(),

		OnEvent:     emitting[server.Event](&d.events),
		Forbidden:   emitting[server.Attempt](&d.events),
		ClientReset: emitting[server.ClientReset](&d.events),
		Routes:      append(jobsserver.Routes(d.runner), jobsserver.PlanRoute(d.planner), d.metrics.Route(), server.ReloadRoute(d.reload), server.RemoteRoute(d.service, d.remote.state)),
		Status:      d.sections(),
		Refusals:    d.statePath("refusals.json"),
	})
	if err != nil {
		return err
	}
	d.onStop("keep the refusals", d.api.KeepRefusals)
	return nil
}

// serve says where callers are answered, which they are by now.
func (d *daemon) serve(context.Context) error {
	d.metrics.WatchConnections(d.door.Connections)
	d.onStop("stop the API", d.shut)
	if d.scraped != nil {
		d.serving.Go(func() { d.fail(d.door.ServeOnly(d.scraped, "/metrics", "/healthz", "/readyz")) })
		d.log.Info().Stringer("address", d.scraped.Addr()).Msg("serving metrics")
	}
	d.log.Info().Str("version", api.BuildVersion()).Str("config", d.config.File).Str("ledger", d.config.Ledger.Backend).
		Str("socket", d.socket()).Msg("serving")
	return nil
}

// sections are those of the status, beside quota's own.
func (d *daemon) sections() map[string]func(context.Context) any {
	sections := map[string]func(context.Context) any{
		"triage":   func(ctx context.Context) any { return d.triage(ctx) },
		"jobs":     jobsserver.Section(d.runner),
		"forecast": jobsserver.ForecastSection(d.planner),
		"config":   func(context.Context) any { return d.reloads.told.Load() },
	}
	if d.proxy != nil {
		sections["proxy"] = d.proxySection
	}
	return sections
}

// openSocket opens a socket of our own, which passes reach too, unless there is one:
// systemd's, or that of an earlier attempt.
func (d *daemon) openSocket(context.Context) error {
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

// openSchedule makes the schedule, whose loop tells systemd that quotad is alive.
func (d *daemon) openSchedule(context.Context) (err error) {
	if d.ticks, err = scheduler.New(d.runner.Tick, d.trouble); err != nil {
		return err
	}
	d.onStop("end the schedule", d.ticks.Stop)
	return d.feedWatchdog()
}

// runJobs begins with what a killed daemon left, what was missed, and what is to
// run at the start, and goes on with the schedule.
func (d *daemon) runJobs(ask context.Context) error {
	d.onStop("end the passes under way", func() error {
		d.endPasses(d.force)
		return nil
	})
	d.runner.Start(ask)
	// The slots until here are the runner's: it has made up for them, or noted them.
	for _, job := range d.config.Jobs {
		if err := d.ticks.Set(job.Name, job.Schedule); err != nil {
			return err
		}
	}
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

// warn tells of limits that the schedule does not fit, and of those that are not enforced. To
// find the first takes longer than a service manager should wait for.
func (d *daemon) warn(c *config.Config) {
	for _, warning := range append(c.Warnings(), c.Reminders()...) {
		d.log.Warn().Str("config", warning.File).Int("line", warning.Line).Str("key", warning.Key).Msg(warning.Message)
	}
}

// openMetrics takes the address at which scrapes are answered too, and nothing else but
// whether the daemon is well.
func (d *daemon) openMetrics(context.Context) (err error) {
	if d.config.Metrics == "" {
		return nil
	}
	if d.scraped, err = net.Listen("tcp", d.config.Metrics); err != nil {
		return fmt.Errorf("cannot serve metrics: %w", err)
	}
	d.onStop("let go of the address of the metrics", func() error {
		d.scraped.Close() // the door may have closed it
		return nil
	})
	return nil
}
