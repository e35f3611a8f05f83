package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
)

// The bounds of what events may cost.
const (
	notifiers    = 4  // commands at once
	maxUntold    = 16 // events that wait for each of these; those beyond are logged only
	notifyGrace  = 2 * time.Second
	lastNotified = 5 * time.Second // for the commands under way when the daemon stops
)

// A notifier runs the commands that are told of events.
type notifier struct {
	log      zerolog.Logger
	launcher jobs.Launcher
	dir      string                     // where commands run
	ran      func(config.Event, string) // told of each result: "ok", "failed" or "dropped"
	onEvent  atomic.Pointer[config.OnEvent]

	untold   [notifiers]chan alert // what concerns the same credential or job is told in its order
	stopping chan struct{}         // closed when no more events are waited for
	end      context.CancelFunc
	running  sync.WaitGroup
}

func newNotifier(log zerolog.Logger, launcher jobs.Launcher, dir string, ran func(config.Event, string)) *notifier {
	n := &notifier{log: log, launcher: launcher, dir: dir, ran: ran, stopping: make(chan struct{})}
	for i := range n.untold {
		n.untold[i] = make(chan alert, maxUntold)
	}
	n.configure(config.OnEvent{})
	return n
}

// configure says which commands are run from now on.
func (n *notifier) configure(onEvent config.OnEvent) { n.onEvent.Store(&onEvent) }

// start begins to run commands, until stop.
func (n *notifier) start() {
	ctx, end := context.WithCancel(context.Background())
	n.end = end
	for _, untold := range n.untold {
		n.running.Go(func() { n.work(ctx, untold) })
	}
}

// stop tells what is left to tell, as far as it takes no longer than a moment.
func (n *notifier) stop() error {
	close(n.stopping)
	patience := time.AfterFunc(lastNotified, n.end)
	defer patience.Stop()
	n.running.Wait()
	n.end()
	return nil
}

// tell has the command of an event run, unless there is none or too many wait.
// It returns at once.
func (n *notifier) tell(a alert) {
	if len(n.onEvent.Load().Commands[a.event]) == 0 {
		return
	}
	subject := fnv.New32a()
	io.WriteString(subject, a.credential+"/"+a.run.Job)
	select {
	case n.untold[subject.Sum32()%notifiers] <- a:
	default:
		n.ran(a.event, "dropped")
		n.log.Error().Str("event", string(a.event)).Str("detail", "too many events at once").Msg("event command dropped")
	}
}

func (n *notifier) work(ctx context.Context, untold <-chan alert) {
	for {
		select {
		case a := <-untold:
			n.run(ctx, a)
			continue
		case <-n.stopping:
		}
		select { // what had come before the stop
		case a := <-untold:
			n.run(ctx, a)
		default:
			return
		}
	}
}

// run runs the command of an event to its end.
func (n *notifier) run(ctx context.Context, a alert) {
	onEvent := n.onEvent.Load()
	args := onEvent.Commands[a.event]
	if len(args) == 0 {
		return // a reload took it away
	}
	command := jobs.Command{
		Args: args, Dir: n.dir, Env: append(jobs.Inherited(os.Environ()), a.environ()...),
		Timeout: onEvent.Timeout, KillGrace: notifyGrace,
	}
	exit := n.launcher.Launch(ctx, command, func(line jobs.Line) {
		n.log.Info().Str("event", string(a.event)).Str("stream", line.Stream).Msg(line.Text)
	})
	if failure := failureOf(exit); failure != "" {
		n.ran(a.event, "failed")
		n.log.Error().Str("event", string(a.event)).Str("detail", failure).Int64("took_ms", exit.Took.Milliseconds()).Msg("event command failed")
		return
	}
	n.ran(a.event, "ok")
	n.log.Info().Str("event", string(a.event)).Int64("took_ms", exit.Took.Milliseconds()).Msg("event command done")
}

// failureOf says why a command did not do its work, "" if it did.
func failureOf(exit jobs.Exit) string {
	switch {
	case exit.Err != nil:
		return exit.Err.Error()
	case errors.Is(exit.Cause, jobs.ErrTimeout):
		return "it reached its timeout"
	case exit.Cause != nil:
		return "the daemon is stopping"
	case exit.Signal != "":
		return "killed by " + exit.Signal
	case exit.Code != 0:
		return fmt.Sprintf("exit status %d", exit.Code)
	}
	return ""
}
