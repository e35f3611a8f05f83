package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/metrics"
	"quotad/cmd/quotad/notify"
	"quotad/jobs"
	"quotad/jobs/plan"
	"quotad/jobs/scheduler"
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
	config  *config.Config                // of the start
	inForce atomic.Pointer[config.Config] // since the last reload

	ask, force context.Context // see handleSignals
	hangups    chan os.Signal
	failed     chan error // why the process must end
	undo       []func()   // what stop does, the last one first

	sinks    []func(event any) // of events
	metrics  *metrics.Metrics
	notifier *notify.Notifier
	denials  *server.Denials
	facts    *facts
	diskOf   func(dir string) (free, size uint64)

	ledger       *slidinglog.Ledger
	shared       *redisledger.Store // nil: the ledger is embedded
	service      *quota.Service
	clients      *clientlimit.Service
	clientCounts *clientlimit.Memory // nil beside Redis
	observer     *upstream.Observer  // of what the upstreams answer
	tokens       *jobs.Tokens
	remote       server.Remote // callers on other hosts
	proxy        *proxy.Proxy  // nil: there is none
	launcher     jobs.Launcher // of passes
	runner       *jobs.Runner
	planner      *plan.Planner
	schedule     *scheduler.Scheduler

	api     *server.Server
	callers net.Listener // the socket of the API

	reloading sync.Mutex // held while one configuration replaces another; guards reloads
	reloads   bool       // false before the daemon is ready and when it stops: nothing is replaced then
	file      atomic.Pointer[api.Configuration]

	changed chan struct{} // holds one if the daemon is to look at itself soon
	urgent  atomic.Bool   // the next look is to report troubles
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

// A service answers on a listener.
type service interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
}

// serve serves a listener until stop, which lets its requests in flight end. An error of Serve ends the process.
func (d *daemon) serve(what string, s service, l net.Listener) {
	var serving sync.WaitGroup
	serving.Go(func() { d.fail(s.Serve(l)) })
	d.onStop("stop "+what, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		err := s.Shutdown(ctx)
		serving.Wait()
		return err
	})
}

func (d *daemon) statePath(name string) string { return filepath.Join(d.config.StateDir, name) }

// socket is where the API is served, as callers reach it.
func (d *daemon) socket() string { return d.callers.Addr().String() }

// notifySystemd reports a state to the service manager. The daemon works without it.
func (d *daemon) notifySystemd(state string) {
	if err := d.systemd.notify(state); err != nil {
		d.log.Warn().Err(err).Msg("systemd does not receive the state of quotad")
	}
}

// lookSoon requests a look at the daemon. It returns at once.
func (d *daemon) lookSoon() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}
