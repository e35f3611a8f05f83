package notify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
)

// The bounds of what events may cost.
const (
	workers     = 4 // commands at once
	killGrace   = 2 * time.Second
	stopTimeout = 5 * time.Second // for the commands under way when the daemon stops
)

// The outcomes of an alert.
const (
	OK      = "ok"
	Failed  = "failed"
	Dropped = "dropped" // a later one of its kind came first, or the daemon stopped
)

// A Result is the outcome of an alert that has a command.
type Result struct {
	Event   config.EventName
	Outcome string // OK, Failed or Dropped
	Detail  string // why, of the last two
	Took    time.Duration
}

// An Output is a line that the command of an alert has written.
type Output struct {
	Event config.EventName
	Line  jobs.Line
}

// A Notifier runs the commands of alerts. Of each subject one state waits: what a trouble has become, or the last
// occurrence. So its memory is bounded by what is configured, however slow the commands are. Any number of goroutines
// may notify it at the same time.
type Notifier struct {
	dir      string          // where commands run
	emit     func(event any) // a Result for each alert that has a command, an Output for each line that one writes
	onEvent  atomic.Pointer[config.OnEvent]
	launcher jobs.Launcher
	slots    chan struct{}   // one for each command that may begin; none before the start
	ctx      context.Context // of the commands
	cancel   context.CancelFunc
	running  sync.WaitGroup // the goroutine of each subject in waiting

	mu       sync.Mutex          // guards what follows
	waiting  map[subject][]Alert // at most what began and what ended; none while the last one's command is under way
	stopping bool
}

// NewNotifier returns a notifier whose commands run in dir. It must be configured and started.
func NewNotifier(dir string, emit func(event any)) *Notifier {
	n := &Notifier{dir: dir, emit: emit, slots: make(chan struct{}, workers), waiting: map[subject][]Alert{}}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.Configure(config.OnEvent{})
	return n
}

// Configure sets which commands are run from now on.
func (n *Notifier) Configure(onEvent config.OnEvent) { n.onEvent.Store(&onEvent) }

// Start begins to run commands, until Stop.
func (n *Notifier) Start(launcher jobs.Launcher) {
	n.launcher = launcher
	for range workers {
		n.slots <- struct{}{}
	}
}

// Stop runs the commands of the alerts that wait, and ends what takes longer than stopTimeout. Those of troubles that did
// not run then are not Done.
func (n *Notifier) Stop() {
	n.mu.Lock()
	n.stopping = true
	n.mu.Unlock()
	timeout := time.AfterFunc(stopTimeout, n.cancel)
	defer timeout.Stop()
	n.running.Wait()
	n.cancel()
}

// Record queues the command of an alert, unless there is none. It ignores other events, and returns at once.
func (n *Notifier) Record(event any) {
	a, ok := event.(Alert)
	if !ok {
		return
	}
	if len(n.onEvent.Load().Commands[a.Event]) == 0 {
		a.done()
		return
	}
	if n.add(a) {
		n.emit(Result{Event: a.Event, Outcome: Dropped, Detail: "another one came before the command of this one could run"})
	}
}

// add has an alert wait, and reports whether it replaced another occurrence. A trouble that began and ended while its
// beginning waits is reported both; what changes then again takes the last change back.
func (n *Notifier) add(a Alert) (replaced bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	of := a.subject()
	alerts, underWay := n.waiting[of]
	switch {
	case a.Change.Kind == "" && (len(alerts) == 2 || len(alerts) == 1 && alerts[0].Event == a.Event):
		alerts, replaced = append(alerts[1:], a), true
	case len(alerts) == 2:
		alerts = alerts[:1]
	default:
		alerts = append(alerts, a)
	}
	n.waiting[of] = alerts
	if !underWay && !n.stopping {
		n.running.Go(func() { n.report(of) })
	}
	return replaced
}

// report runs the commands of a subject one after the other, until none waits.
func (n *Notifier) report(of subject) {
	for waits := true; waits; {
		<-n.slots
		var a Alert
		if a, waits = n.next(of); waits {
			n.run(a)
		}
		n.slots <- struct{}{}
	}
}

// next takes the alert of a subject that waits first; there is none once the time to stop is up.
func (n *Notifier) next(of subject) (a Alert, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	alerts := n.waiting[of]
	if len(alerts) == 0 || n.ctx.Err() != nil {
		delete(n.waiting, of)
		return a, false
	}
	n.waiting[of] = alerts[1:]
	return alerts[0], true
}

func (a Alert) done() {
	if a.Done != nil {
		a.Done()
	}
}

// run runs the command of an alert to its end.
func (n *Notifier) run(a Alert) {
	onEvent := n.onEvent.Load()
	if len(onEvent.Commands[a.Event]) == 0 { // a reload removed it
		a.done()
		return
	}
	result := n.launch(n.ctx, onEvent, a, func(line jobs.Line) { n.emit(Output{a.Event, line}) })
	if n.ctx.Err() == nil {
		a.done()
	}
	n.emit(result)
}

func (n *Notifier) launch(ctx context.Context, onEvent *config.OnEvent, a Alert, output func(jobs.Line)) Result {
	exit := n.launcher.Launch(ctx, context.Background(), jobs.Command{
		Args: onEvent.Commands[a.Event], Dir: n.dir, Env: append(jobs.Inherited(os.Environ()), a.environ()...), Stdin: a.input(),
		Timeout: onEvent.Timeout, KillGrace: killGrace,
	}, output)
	result := Result{Event: a.Event, Outcome: OK, Detail: failureOf(exit), Took: exit.Took}
	if result.Detail != "" {
		result.Outcome = Failed
	}
	return result
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
