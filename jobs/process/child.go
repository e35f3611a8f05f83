package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"quotad/jobs"
)

// A child is a command that has been started.
type child struct {
	cmd    *exec.Cmd
	id     jobs.Identity
	family family
	grace  time.Duration
	over   chan struct{} // closed when it has ended, and is reaped
}

// start starts the command in a cgroup of its own, or, if that cannot be had, without one. Its output goes to out.
func (l Launcher) start(command jobs.Command, out *output) (*child, error) {
	cmd := exec.Command(command.Args[0], command.Args[1:]...)
	cmd.Dir = command.Dir
	cmd.Env = append([]string{}, command.Env...) // os/exec takes nil for our own environment
	// As files, so that os/exec does not wait for other processes that hold them.
	cmd.Stdout, cmd.Stderr = out.pipes[0].write, out.pipes[1].write
	if len(command.Stdin) > 0 {
		cmd.Stdin, cmd.WaitDelay = bytes.NewReader(command.Stdin), time.Second
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: l.User.credential()}
	group, err := l.startGrouped(cmd)
	if err != nil {
		return nil, err
	}
	id, _ := Identify(cmd.Process.Pid) // what cannot be found out stays unknown: the command runs all the same
	id.Cgroup = string(group)
	c := &child{cmd: cmd, id: id, family: family{group, cmd.Process.Pid}, grace: command.KillGrace, over: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // its state says more than the error
		close(c.over)
	}()
	return c, nil
}

// startGrouped starts a command and returns its cgroup, "" if it has none.
func (l Launcher) startGrouped(cmd *exec.Cmd) (cgroup, error) {
	dir := ""
	if l.Cgroups != "" {
		dir, _ = os.MkdirTemp(l.Cgroups, "pass-") // where that cannot be, it has none
	}
	if dir == "" {
		return "", l.User.start(cmd.Start)
	}
	group := cgroup(dir)
	entered, err := l.startIn(group, cmd)
	if err == nil && entered {
		return group, nil
	}
	group.remove()
	return "", err
}

// wait waits for the command's end, ends the command when ask ends, and ends what it left running.
func (c *child) wait(ask, force context.Context) (exit jobs.Exit) {
	select {
	case <-c.over:
	case <-ask.Done():
	}
	if c.ended() {
		exit.Swept = c.family.size()
	} else {
		exit.Cause = context.Cause(ask)
	}
	if exit.Cause != nil || exit.Swept > 0 {
		exit.Left, _ = c.family.end(context.Background(), force, c.grace, c.ended)
	}
	c.family.cgroup.remove()
	exit.Code, exit.Signal = status(c.cmd.ProcessState)
	return exit
}

// ended returns whether the command has ended.
func (c *child) ended() bool {
	select {
	case <-c.over:
	default:
		return false
	}
	if c.family.cgroup != "" {
		c.family.group = 0 // it may be empty by now, and its number another's
	}
	return true
}

// status returns the exit code, or -1 and the signal. There is no state if our child was reaped elsewhere.
func status(state *os.ProcessState) (code int, signal string) {
	if state == nil {
		return -1, ""
	}
	if wait, ok := state.Sys().(syscall.WaitStatus); ok && wait.Signaled() {
		signal = unix.SignalName(wait.Signal())
		if signal == "" {
			signal = fmt.Sprintf("SIG%d", wait.Signal()) // a real-time signal
		}
	}
	return state.ExitCode(), signal
}
