package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"quotad/jobs"
)

// A Launcher launches processes on this host. The zero value is ready to use,
// and any number of goroutines may use one, or several, at the same time.
type Launcher struct {
	// Cgroups is a directory of cgroup v2, see DelegatedCgroup and CheckCgroups, below which each command
	// gets a cgroup of its own: then nothing that it starts can escape, unless it may write to
	// cgroups itself. The program's main function must call Enter. Where it is empty, or no
	// cgroup can be made, what leaves the command's process group, as by setsid(2), is not
	// known to us.
	Cgroups string
	// User is the user that commands run as, with none of our capabilities; nil: the user
	// that we run as, with all that we may.
	User *User
}

var _ jobs.Launcher = Launcher{}

// Launch implements jobs.Launcher. A command gets a session and a process group
// of its own and no terminal; without a Stdin it gets the null device. When it
// has ended, whatever it left running gets TERM, and after the grace KILL: its
// exit code counts, not what its background processes do.
//
// Lines are cut after 64 KiB. A command never waits for output to take a line:
// what it writes faster than lines are handed over is dropped, the oldest
// first. Launch itself does wait, for the last line.
func (l Launcher) Launch(ask, force context.Context, command jobs.Command, output func(jobs.Line)) (exit jobs.Exit) {
	began := time.Now()
	defer func() { exit.Took = time.Since(began) }()
	ask, cancel := context.WithTimeoutCause(ask, command.Timeout, jobs.ErrTimeout)
	defer cancel()
	if ask.Err() != nil {
		return jobs.Exit{Code: -1, Cause: context.Cause(ask)}
	}
	out, err := openOutput(masked(output, command.Secrets))
	if err != nil {
		return jobs.Exit{Code: -1, Err: fmt.Errorf("cannot start %q: %w", command.Args[0], err)}
	}
	defer out.close()
	c, err := l.start(command, out)
	if err != nil {
		return jobs.Exit{Code: -1, Err: l.startError(command, err)}
	}
	out.read()
	if command.Started != nil {
		command.Started(c.id)
	}
	out.emitLines()
	return c.wait(ask, force)
}

// startError says what caused an error that the kernel uses for several mistakes.
func (l Launcher) startError(command jobs.Command, err error) error {
	name := command.Args[0]
	if command.Dir != "" {
		if _, missing := os.Stat(command.Dir); errors.Is(missing, fs.ErrNotExist) {
			return fmt.Errorf("cannot start %q: its working directory: %w", name, missing)
		}
		if closed, _ := l.User.Closed(command.Dir, Execute); closed != "" {
			return fmt.Errorf("cannot start %q: its working directory: user %s cannot enter %s", name, l.User, closed)
		}
	}
	if errors.Is(err, syscall.ENOEXEC) {
		return fmt.Errorf("cannot start %q: it is not a program for this machine; a script begins with a line such as #!/bin/sh", name)
	}
	if cause := l.User.CheckProgram(name, ""); cause != nil {
		return fmt.Errorf("cannot start %q: %w", name, cause)
	}
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err // the message has the path
	}
	return fmt.Errorf("cannot start %q: %w", name, err)
}
