package notify

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

	"quotad/cmd/quotad/config"
	"quotad/jobs"
)

// The bounds of what events may cost.
const (
	workers     = 4  // commands at once
	queueLength = 16 // alerts that wait for each worker; those beyond are dropped
	killGrace   = 2 * time.Second
	stopTimeout = 5 * time.Second // for the commands under way when the daemon stops
)

// The outcomes of an alert.
const (
	OK      = "ok"
	Failed  = "failed"
	Dropped = "dropped" // too many waited
)

// A Result is the outcome of an alert that has a command.
type Result struct {
	Event   config.Event
	Outcome string // OK, Failed or Dropped
	Detail  string // why, of the last two
	Took    time.Duration
}

// An Output is a line that the command of an alert has written.
type Output struct {
	Event config.Event
	Line  jobs.Line
}

// A Notifier runs the commands of alerts. Any number of goroutines may notify it at
// the same time.
type Notifier struct {
	dir     string          // where commands run
	emit    func(event any) // a Result for each alert that has a command, an Output for each line that one writes
	onEvent atomic.Pointer[config.OnEvent]

	queues   [workers]chan Alert // each credential or job has one, which keeps its order
	stopping chan struct{}       // closed when no more alerts come
	cancel   context.CancelFunc  // of the commands under way
	running  sync.WaitGroup
}

// NewNotifier returns a notifier whose commands run in dir. It must be configured and
// started.
func NewNotifier(dir string, emit func(event any)) *Notifier {
	n := &Notifier{dir: dir, emit: emit, stopping: make(chan struct{})}
	for i := range n.queues {
		n.queues[i] = make(chan Alert, queueLength)
	}
	n.Configure(config.OnEvent{})
	return n
}

// Configure sets which commands are run from now on.
func (n *Notifier) Configure(onEvent config.OnEvent) { n.onEvent.Store(&onEvent) }

// Start begins to run commands, until Stop.
func (n *Notifier) Start(launcher jobs.Launcher) {
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	for _, queue := range n.queues {
		n.running.Go(func() { n.work(ctx, launcher, queue) })
	}
}

// Stop runs the commands of the alerts that wait, and ends what takes longer than
// stopTimeout.
func (n *Notifier) Stop() {
	close(n.stopping)
	timeout := time.AfterFunc(stopTimeout, n.cancel)
	defer timeout.Stop()
	n.running.Wait()
	n.cancel()
}

// Record queues the command of an alert, unless there is none or too many wait.
// It ignores other events, and returns at once.
func (n *Notifier) Record(event any) {
	a, ok := event.(Alert)
	if !ok || len(n.onEvent.Load().Commands[a.Event]) == 0 {
		return
	}
	subject := fnv.New32a()
	io.WriteString(subject, a.Credential+"/"+a.Run.Job)
	select {
	case n.queues[subject.Sum32()%workers] <- a:
	default:
		n.emit(Result{Event: a.Event, Outcome: Dropped, Detail: "too many events at once"})
	}
}

func (n *Notifier) work(ctx context.Context, launcher jobs.Launcher, queue <-chan Alert) {
	for {
		select {
		case a := <-queue:
			n.run(ctx, launcher, a)
			continue
		case <-n.stopping:
		}
		select { // what had come before the stop
		case a := <-queue:
			n.run(ctx, launcher, a)
		default:
			return
		}
	}
}

// run runs the command of an alert to its end.
func (n *Notifier) run(ctx context.Context, launcher jobs.Launcher, a Alert) {
	onEvent := n.onEvent.Load()
	args := onEvent.Commands[a.Event]
	if len(args) == 0 {
		return // a reload removed it
	}
	exit := launcher.Launch(ctx, context.Background(), jobs.Command{
		Args: args, Dir: n.dir, Env: append(jobs.Inherited(os.Environ()), a.environ()...),
		Timeout: onEvent.Timeout, KillGrace: killGrace,
	}, func(line jobs.Line) { n.emit(Output{a.Event, line}) })
	result := Result{Event: a.Event, Outcome: OK, Detail: failureOf(exit), Took: exit.Took}
	if result.Detail != "" {
		result.Outcome = Failed
	}
	n.emit(result)
}

// failureOf says why a command failed, "" if it did not.
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
