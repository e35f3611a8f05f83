package process

import (
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
	cmd      *exec.Cmd
	tree     *tree
	grace    time.Duration
	launcher Launcher
}

// start starts the command in a cgroup of its own, or, if that cannot be had, without
// one. Its output goes to out.
func (l Launcher) start(command jobs.Command, out *output) (*child, error) {
	cmd := exec.Command(command.Args[0], command.Args[1:]...)
	cmd.Dir = command.Dir
	cmd.Env = append([]string{}, command.Env...) // os/exec takes nil for our own environment
	// As files, so that os/exec does not wait for other processes that hold them.
	cmd.Stdout, cmd.Stderr = out.pipes[0].write, out.pipes[1].write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: l.User.credential()}
	group, err := l.startGrouped(cmd)
	if err != nil {
		return nil, err
	}
	limitTasks(cmd.Process.Pid, l.Tasks)
	id, _ := Identify(cmd.Process.Pid) // what cannot be found out stays unknown: the command runs all the same
	id.Marks, id.Cgroup = marks(cmd.Env), string(group)
	t := &tree{root: id, cgroup: group, reaper: l.Reaper, pinned: true}
	return &child{cmd: cmd, tree: t, grace: command.KillGrace, launcher: l}, nil
}

// startGrouped starts a command and returns its cgroup, "" if it has none.
func (l Launcher) startGrouped(cmd *exec.Cmd) (cgroup, error) {
	group := l.Cgroups.make()
	if group == "" {
		return "", l.User.start(func() error { return l.Reaper.start(cmd) })
	}
	entered, err := l.startIn(group, cmd)
	if err == nil && entered {
		return group, nil
	}
	l.Cgroups.remove(group)
	return "", err
}

// wait waits for the command's end, ends the command when ask ends, and ends what it left
// running.
func (c *child) wait(ask, force context.Context) (exit jobs.Exit) {
	ended := c.tree.awaitRoot(ask)
	left := len(c.tree.members())
	if ended {
		exit.Swept = left
	} else {
		exit.Cause = context.Cause(ask)
	}
	if !ended || left > 0 {
		exit.Left, _ = c.tree.end(context.Background(), force, c.grace)
	}
	if c.tree.pinned {
		_ = syscall.Kill(-c.tree.root.PID, syscall.SIGKILL) // what members could not see
	}
	c.launcher.Reaper.wait(c.cmd)
	c.launcher.Cgroups.remove(c.tree.cgroup)
	exit.Code, exit.Signal = status(c.cmd.ProcessState)
	return exit
}

// status returns the exit code, or -1 and the signal. There is no state if our child was
// reaped elsewhere.
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
