package notify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/quota"
)

// The bounds of what events may cost.
const (
	maxWaiting  = 2000             // events; then the oldest is dropped
	timeout     = 30 * time.Second // of one command
	killGrace   = 2 * time.Second
	stopTimeout = 5 * time.Second // for what waits when the daemon stops
)

// A Result says how the command of an event ended.
type Result struct {
	Event  string
	Failed string // why; empty: it did not fail
	Took   time.Duration
}

// An Output is a line that the command of an event has written.
type Output struct {
	Event string
	Line  jobs.Line
}

// A Notifier runs the command of [on_event] for one event after the other. Its queue is bounded, and nothing of it is on
// disk. Any number of goroutines may notify it at the same time.
type Notifier struct {
	dir      string          // where the command runs
	emit     func(event any) // a Result for each event that has a command, an Output for each line that one writes
	onEvent  atomic.Pointer[config.OnEvent]
	launcher jobs.Launcher
	ctx      context.Context // of the commands
	cancel   context.CancelFunc
	working  sync.WaitGroup
	waiting  chan *Event
	stops    chan struct{} // closed once the daemon stops
}

// NewNotifier returns a notifier whose command runs in dir. It must be configured and started.
func NewNotifier(dir string, emit func(event any)) *Notifier {
	n := &Notifier{dir: dir, emit: emit, waiting: make(chan *Event, maxWaiting), stops: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.Configure(config.OnEvent{})
	return n
}

// Configure sets which command runs for what from now on.
func (n *Notifier) Configure(onEvent config.OnEvent) { n.onEvent.Store(&onEvent) }

// Below returns how much is little of each limit.
func (n *Notifier) Below() map[string]quota.Units { return n.onEvent.Load().WarnBelow }

// Start begins to run commands, until Stop.
func (n *Notifier) Start(launcher jobs.Launcher) {
	n.launcher = launcher
	n.working.Go(func() {
		for stops := false; !stops || len(n.waiting) > 0 && n.ctx.Err() == nil; {
			select {
			case e := <-n.waiting:
				n.emit(n.run(n.ctx, e, func(line jobs.Line) { n.emit(Output{e.Event, line}) }))
			case <-n.stops:
				stops = true
			}
		}
	})
}

// Stop runs the command for the events that wait, and ends what takes longer than stopTimeout.
func (n *Notifier) Stop() {
	close(n.stops)
	defer time.AfterFunc(stopTimeout, n.cancel).Stop()
	n.working.Wait()
	n.cancel()
}

// Record queues an event if the command is to run for its kind. It ignores others, and returns at once.
func (n *Notifier) Record(event any) {
	e, ok := event.(Event)
	if on := n.onEvent.Load(); !ok || on.Command == nil || !slices.Contains(on.Kinds, e.Event) {
		return
	}
	for {
		select {
		case n.waiting <- &e:
			return
		default:
		}
		select {
		case oldest := <-n.waiting:
			n.emit(Result{Event: oldest.Event, Failed: fmt.Sprintf("dropped: %d events wait for their command", maxWaiting)})
		default: // there is room by now
		}
	}
}

// run runs the command for an event to its end.
func (n *Notifier) run(ctx context.Context, e *Event, output func(jobs.Line)) Result {
	on := n.onEvent.Load()
	if on.Command == nil { // a reload removed it
		return Result{Event: e.Event, Failed: "there is no command any more"}
	}
	object, environment := e.encoded()
	exit := n.launcher.Launch(ctx, context.Background(), jobs.Command{
		Args: on.Command, Dir: n.dir, Env: append(jobs.Inherited(os.Environ()), environment...), Stdin: object,
		Timeout: timeout, KillGrace: killGrace,
	}, output)
	result := Result{Event: e.Event, Took: exit.Took}
	switch {
	case exit.Err != nil:
		result.Failed = exit.Err.Error()
	case errors.Is(exit.Cause, jobs.ErrTimeout):
		result.Failed = fmt.Sprintf("it took longer than %v", timeout)
	case exit.Cause != nil:
		result.Failed = "the daemon is stopping"
	case exit.Signal != "":
		result.Failed = "killed by " + exit.Signal
	case exit.Code != 0:
		result.Failed = fmt.Sprintf("exit status %d", exit.Code)
	}
	return result
}

// Try runs the command with an example of an event, and returns the result and what it wrote. It returns false if there
// is no command. The end of ctx ends it.
func (n *Notifier) Try(ctx context.Context, event string) (result Result, lines []jobs.Line, ok bool) {
	if n.onEvent.Load().Command == nil {
		return Result{}, nil, false
	}
	result = n.run(ctx, example(event, time.Now()), func(line jobs.Line) { lines = append(lines, line) })
	return result, lines, true
}

// example is an event as the command may get it.
func example(event string, now time.Time) *Event {
	var e Event
	run := jobs.Run{ID: "06h1jwarqavnpf0", Job: "trending", Trigger: jobs.Scheduled, State: jobs.RunRunning, StartedAt: now.Add(-time.Minute)}
	switch event {
	case config.EventLow:
		e = lowOf("youtube", quota.LimitState{Limit: quota.Limit{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)}, Used: 9_020})
	case config.EventRunEnded:
		run.State, run.EndedAt, run.Detail = jobs.RunFailed, now, "1 region failed"
		run.Passes = []jobs.Pass{{Region: "GB", Outcome: jobs.Failed, Spent: jobs.Spent{Units: 4, Made: jobs.Made{"videos.list": 4}}, Tail: []string{"no route to host"}}}
		fallthrough
	case config.EventRunStarted:
		e = ofRun(jobs.RunChanged{Run: run, Next: now.Add(time.Hour)}, now)
	default:
		e = Changed(trouble.Change{Ended: event == config.EventOver, Trouble: trouble.Trouble{Kind: trouble.Failing, Of: "job trending",
			Since: now.Add(-time.Hour), Says: "trending: GB fails since an hour ago: no route to host", Do: "quotactl runs trending"}}, now)
	}
	e.At, e.Example, e.Says = now, true, "an example: "+e.Says
	return &e
}
