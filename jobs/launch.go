package jobs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Launcher runs processes.
type Launcher interface {
	// Launch runs one command to its end and passes on its output, one line at a time: the command waits for it. When
	// Launch returns, no process of the command is left. The end of ask ends the command: TERM to all its processes, KILL
	// after the grace, or as soon as force ends, which is not before ask; the cause of ask is in the Exit.
	Launch(ask, force context.Context, command Command, output func(Line)) Exit
}

// A Command is what a Launcher executes.
type Command struct {
	Args      []string // the program as a path, and its arguments
	Dir       string
	Env       []string      // "NAME=value", complete
	Stdin     []byte        // what it reads on its standard input
	Secrets   []string      // removed from all output; none is empty
	Timeout   time.Duration // more than 0
	KillGrace time.Duration // from TERM to KILL, more than 0

	// Started, if set, is called as soon as the command runs, before any of its output is passed on.
	Started func(Identity)
}

// A Line is one line of a command's output, without its newline.
type Line struct {
	Stream string // "stdout" or "stderr"
	Text   string // valid UTF-8
	Cut    bool   // the rest of the line comes in the next one
}

// An Exit says how a command ended. The exit code of a command that we ended means nothing.
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
	// ErrTimeout means that the pass ran for as long as its job allows.
	ErrTimeout = errors.New("the pass reached its timeout")
	// ErrShutdown means that the daemon stops.
	ErrShutdown = errors.New("the daemon is stopping")
	// errDenied means that the pass was denied what does not return before its timeout.
	errDenied = errors.New("the pass was denied, and went on")
	// ErrOperator means that an operator stopped the run.
	ErrOperator = errors.New("an operator stopped the run")
)

// An Identity identifies a process, even if another one gets the same number later.
type Identity struct {
	BootID string // the kernel's boot during which it was started
	PID    int    // its number, and that of its group
	Start  uint64 // when it was started, in the kernel's clock ticks since boot
	Cgroup string // the directory of the cgroup made for it; empty: none
}

// contractPrefix begins the names of the variables that quotad sets for a pass.
const contractPrefix = "QUOTAD_"

// Inherited returns the part of a daemon's environment that the programs it runs inherit. Variables
// from systemd (NOTIFY_SOCKET, LISTEN_FDS, CREDENTIALS_DIRECTORY …) are not for its children.
func Inherited(environ []string) []string {
	names := []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, found := strings.Cut(entry, "=")
		return !found || !slices.Contains(names, name) && !strings.HasPrefix(name, "LC_")
	})
}

// environ returns the complete environment of a pass: the allowed part of the daemon's own, over
// it the job's, over that what quotad sets for the pass.
func environ(own []string, job *Job, contract map[string]string) (env []string) {
	vars := map[string]string{}
	for _, entry := range Inherited(own) {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	maps.Copy(vars, job.Env)
	maps.Copy(vars, contract)
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

func hasNUL(s string) bool { return strings.Contains(s, "\x00") }
