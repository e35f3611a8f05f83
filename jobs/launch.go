package jobs

import (
	"context"
	"errors"
	"time"
)

// A Launcher runs processes.
type Launcher interface {
	// Launch runs one command to its end and hands over its output line by line
	// while it runs, one line at a time. When Launch returns, no process of the
	// command is left. The end of ask ends the command: TERM to all its processes,
	// KILL after the grace, or as soon as force ends, which is not before ask; the
	// cause of ask is in the Exit.
	Launch(ask, force context.Context, command Command, output func(Line)) Exit
}

// A Command is what a Launcher executes.
type Command struct {
	Args      []string // the program as a path, and its arguments
	Dir       string
	Env       []string // "NAME=value", complete
	Secrets   []string // these stand in none of the lines that are handed over; none is empty
	Timeout   time.Duration
	KillGrace time.Duration

	// Started, if set, is called once, as soon as the command runs and before
	// any of its output is handed over.
	Started func(Identity)
}

// A Line is one line of a command's output, without its newline.
type Line struct {
	Stream string // "stdout" or "stderr"
	Text   string // valid UTF-8
	Cut    bool   // the line was longer than what is kept

	// Dropped, if not zero, is how many lines of the stream are missing here,
	// because the command wrote faster than lines are handed over. Text says so;
	// such a line is the launcher's own.
	Dropped int
}

// An Exit says how a command ended. The causes of our own making come first:
// a command that was ended by us tells nothing by its exit code.
type Exit struct {
	Err    error  // it could not be started, and why; nothing ran
	Cause  error  // we ended it: ErrTimeout, or the cause of the cancelled context
	Code   int    // its exit code; -1 if it was killed by a signal or not started
	Signal string // the signal that killed it, "SIGSEGV"; empty if none
	Took   time.Duration

	Swept int // processes it had started and left running; they were ended
	Left  int // of these, how many live on: not ours to signal, or stuck in the kernel
}

// The causes for which we end a pass, to be found by errors.Is in an Exit.
var (
	// ErrTimeout: the pass ran for as long as its job allows.
	ErrTimeout = errors.New("the pass reached its timeout")
	// ErrShutdown: the daemon stops.
	ErrShutdown = errors.New("the daemon is stopping")
	// ErrOperator: somebody stopped the run.
	ErrOperator = errors.New("an operator stopped the run")
)

// An Identity says which process it was, surely enough that another one that
// was given the same number later is never taken for it. It holds what a
// daemon that was killed must have written down, so that the next one can end
// what it left running.
type Identity struct {
	BootID string // the kernel's boot during which it was started
	PID    int    // its number, and that of its group and its session; 0: not known
	Start  uint64 // when it was started, in the kernel's clock ticks since boot; 0: not known

	// Marks are the entries of its environment that no other pass has: what
	// descends from it is known by them, wherever it went.
	Marks  []string
	Cgroup string // the directory of the cgroup made for it; empty: none
}
