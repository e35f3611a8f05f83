package main

import (
	"context"
	"errors"
	"io"
	stdlog "log"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"quotad/cmd/quotad/config"
	"quotad/quota/api"
	"quotad/quota/server"
)

// A supervisor opens a daemon, again and again until one can serve. Until then the frontend
// refuses every caller with the reason (refuse.go). The supervisor owns what lasts as long as the
// process. An attempt that fails closes what it opened.
type supervisor struct {
	options options
	systemd systemd
	stderr  io.Writer
	log     zerolog.Logger

	ask, force context.Context // see handleSignals
	hangups    chan os.Signal
	failed     chan error // why the process must end

	frontend *server.Frontend
	callers  net.Listener   // the socket of the API; nil: it is not open yet
	accept   func()         // serves callers through the frontend; once
	serving  sync.WaitGroup // for the listeners of the frontend
	shut     func() error   // closes the frontend; once

	config  *config.Config // the last good one; nil: there was none
	retries chan retry     // asked for over the socket
	opened  chan struct{}  // closed when the frontend passes requests to a daemon
}

func newSupervisor(o options, s systemd, stderr io.Writer) *supervisor {
	sup := &supervisor{
		options: o, systemd: s, stderr: stderr, log: newLogger(stderr), callers: s.api,
		hangups: make(chan os.Signal, 1), failed: make(chan error, 1),
		retries: make(chan retry), opened: make(chan struct{}),
	}
	sup.frontend = server.NewFrontend(sup.bounds())
	sup.accept = sync.OnceFunc(func() {
		sup.serving.Go(func() { sup.fail(sup.frontend.Serve(sup.callers)) })
	})
	sup.shut = sync.OnceValue(sup.shutDoor)
	return sup
}

// bounds returns the limits on connections.
func (s *supervisor) bounds() server.FrontendConfig {
	b := server.FrontendConfig{Self: os.Getpid(), ErrorLog: stdlog.New(complaints{s.log}, "", 0)}
	if s.config != nil {
		b.Connections, b.ConnectionsPerUser = s.config.Access.Connections, s.config.Access.ConnectionsPerUser
		b.AdminGroup = s.config.Access.AdminGroup
	}
	return b
}

// run serves until a signal ends it, or an error that leaves no socket to answer on.
func (s *supervisor) run() error {
	signal.Notify(s.hangups, syscall.SIGHUP)
	defer signal.Stop(s.hangups)
	// When the reader of the log ends, its lines are lost, and quotad continues. The channel is never read.
	// An ignored signal would be ignored by every job too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	defer s.handleSignals()()
	defer s.shut()
	d, err := s.openDaemon()
	if d == nil {
		return err
	}
	defer d.stop()
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
	case <-s.ask.Done():
		return nil
	case err := <-s.failed:
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

// handleSignals sets two contexts, until done: the first signal ends ask, which asks the
// daemon to stop, and the second one ends force, which leaves its passes no time.
func (s *supervisor) handleSignals() (done func()) {
	ask, endAsk := context.WithCancel(context.Background())
	force, endForce := context.WithCancel(context.Background())
	s.ask, s.force = ask, force
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	var handling sync.WaitGroup
	handling.Go(func() {
		message, end := "stopping: another signal ends the passes under way at once", endAsk
		for got := range signals {
			s.log.Info().Stringer("signal", got).Msg(message)
			end()
			message, end = "ending the passes at once", endForce
		}
	})
	return func() {
		signal.Stop(signals)
		close(signals)
		handling.Wait()
		endAsk()
		endForce()
	}
}

// The time between two attempts grows from minDelay to maxDelay.
const (
	minDelay = time.Second
	maxDelay = time.Minute
)

// openDaemon returns a daemon to which the frontend passes requests. It is nil, with no error, if quotad is
// asked to stop before there is one.
func (s *supervisor) openDaemon() (*daemon, error) {
	logged, asked := "", retry(nil)
	for delay := minDelay; ; delay = min(2*delay, maxDelay) {
		d, err := s.attempt()
		if err == nil {
			asked.answer(nil)
			return d, nil
		}
		if s.callers == nil {
			return nil, err
		}
		if err := s.refuse(err, delay, err.Error() != logged || asked != nil); err != nil {
			return nil, err
		}
		asked.answer(problemOf(err))
		logged = err.Error()
		if asked, err = s.pause(delay); err != nil || s.ask.Err() != nil {
			return nil, err
		}
		if asked != nil {
			delay = minDelay / 2 // an operator asks: something was mended
		}
	}
}

// attempt opens a daemon and has the frontend pass requests to it.
func (s *supervisor) attempt() (*daemon, error) {
	c, err := s.load()
	if err != nil {
		return nil, &configError{err}
	}
	s.config = c
	setLevel(c.LogLevel)
	s.frontend.Bound(s.bounds())
	d := newDaemon(s)
	if err := d.open(); err != nil {
		d.stop()
		return nil, err
	}
	s.frontend.PassTo(d.api)
	s.accept()
	close(s.opened)
	return d, nil
}

func (s *supervisor) load() (*config.Config, error) {
	return load(s.options.config, config.Host{Name: machineName(), StateDirectory: s.systemd.stateDirectory, PassesUser: s.systemd.passesUser})
}

// socket is where the API is served, as callers reach it.
func (s *supervisor) socket() string { return s.callers.Addr().String() }

// fail ends the process, unless err is nil or the process ends already.
func (s *supervisor) fail(err error) {
	if err == nil {
		return
	}
	select {
	case s.failed <- err:
	default:
	}
}

// answerTime is the time for requests that are in flight when the API stops.
const answerTime = 5 * time.Second

// shutDoor answers the requests in flight, and closes the socket.
func (s *supervisor) shutDoor() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	err := s.frontend.Shutdown(ctx)
	s.serving.Wait()
	if s.callers != nil {
		s.callers.Close() // the frontend may never have served it
	}
	return err
}

// A configError means that the file has errors, or cannot be read.
type configError struct{ error }

func (e *configError) Unwrap() error { return e.error }

// isConfig reports whether an error is a configError.
func isConfig(err error) bool { return errors.As(err, new(*configError)) }

// A retry receives the result of an attempt that an operator asked for; nil: the attempt comes by
// itself.
type retry chan error

func (r retry) answer(err error) {
	if r != nil {
		r <- err
	}
}

// retry makes the next attempt at once, and returns its result.
func (s *supervisor) retry(string) (api.Reloaded, error) {
	r := make(retry, 1)
	select {
	case s.retries <- r:
		if err := <-r; err != nil {
			return api.Reloaded{}, err
		}
	case <-s.opened:
	case <-s.ask.Done():
		return api.Reloaded{}, errors.New("quotad is stopping")
	}
	return api.Reloaded{File: s.options.config, Started: true}, nil
}
