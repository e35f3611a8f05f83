package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"quotad/jobs"
)

// A Launcher launches processes on this host. The zero value is ready to use,
// and any number of goroutines may use one, or several, at the same time.
type Launcher struct {
	// Cgroups is a directory of cgroup v2, see DelegatedCgroup and CheckCgroups, below which each command gets a
	// cgroup of its own: then nothing that it starts can escape, unless it may write to cgroups itself. The program's
	// main function must call Enter. Where it is empty, or no cgroup can be made, what leaves the command's process
	// group, as by setsid(2), is not known to us.
	Cgroups string
	// User is the user that commands run as, with none of our capabilities; nil: the user
	// that we run as, with all that we may.
	User *User
}

var _ jobs.Launcher = Launcher{}

// Launch implements jobs.Launcher. A command gets a session and a process group of its own and no terminal; without a
// Stdin it gets the null device. When it has ended, whatever it left running gets TERM, and after the grace KILL: its
// exit code counts, not what its background processes do.
//
// A line of more than 7 KiB is split. A command waits for output to take its lines, within its timeout.
func (l Launcher) Launch(ask, force context.Context, command jobs.Command, output func(jobs.Line)) (exit jobs.Exit) {
	began := time.Now()
	defer func() { exit.Took = time.Since(began) }()
	ask, cancel := context.WithTimeoutCause(ask, command.Timeout, jobs.ErrTimeout)
	defer cancel()
	if ask.Err() != nil {
		return jobs.Exit{Code: -1, Cause: context.Cause(ask)}
	}
	out, err := openOutput()
	if err != nil {
		return jobs.Exit{Code: -1, Err: fmt.Errorf("cannot start %q: %w", command.Args[0], err)}
	}
	defer out.close()
	c, err := l.start(command, out)
	if err != nil {
		return jobs.Exit{Code: -1, Err: l.startError(command, err)}
	}
	if command.Started != nil {
		command.Started(c.id)
	}
	out.read(command.Secrets, output)
	return c.wait(ask, force)
}

// startError says what caused an error that the kernel uses for several mistakes, with the user and the cure.
func (l Launcher) startError(command jobs.Command, err error) error {
	name := command.Args[0]
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err // the message has the path
	}
	_, missing := os.Stat(command.Dir)
	_, unseen := os.Stat(name)
	switch {
	case command.Dir != "" && errors.Is(missing, fs.ErrNotExist):
		err = fmt.Errorf("its working directory: %w", missing)
	case errors.Is(err, syscall.EACCES):
		err = fmt.Errorf("user %s may not execute it, or cannot enter a directory: namei -l %s shows what is closed: chmod 755 it, "+
			"or move the program to where the user can, such as /usr/local/bin", l.User, strings.TrimSpace(name+" "+command.Dir))
	case errors.Is(err, syscall.EPERM) && l.User != nil:
		err = fmt.Errorf("quotad lacks what it takes to become user %s: remove systemd/drop-ins/daemon-user.conf, or start it as root", l.User)
	case errors.Is(err, syscall.ENOEXEC):
		err = errors.New("it is not a program for this machine; a script begins with a line such as #!/bin/sh")
	case errors.Is(err, syscall.ENOENT) && unseen == nil:
		err = errors.New("the interpreter that its first line names does not exist: install it, or correct the line, which must not end in \\r")
	}
	return fmt.Errorf("cannot start %q: %w", name, err)
}

// KeepDescriptors has this process keep to itself what it was given open: from now on no command inherits a
// descriptor beyond the first three. What Go itself opens, none does anyway.
func KeepDescriptors() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("cannot list the open descriptors: %w", err)
	}
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > syscall.Stderr {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}
