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
	cmd    *exec.Cmd
	tree   *tree
	grace  time.Duration
	reaper *Reaper
}

// startChild starts a command. Its output goes to out.
func (l Launcher) startChild(command jobs.Command, out *output, group *cgroup) (*child, error) {
	attributes := &syscall.SysProcAttr{Setsid: true, Credential: l.User.credential()}
	if group != nil {
		dir, err := os.Open(group.dir)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		attributes.UseCgroupFD, attributes.CgroupFD = true, int(dir.Fd())
	}
	cmd := exec.Command(command.Args[0], command.Args[1:]...)
	cmd.Dir = command.Dir
	cmd.Env = append([]string{}, command.Env...) // os/exec takes nil for our own environment
	// As files, so that os/exec does not wait for whoever else holds them.
	cmd.Stdout, cmd.Stderr = out.stdout.write, out.stderr.write
	cmd.SysProcAttr = attributes
	if err := l.User.start(func() error { return l.Reaper.start(cmd) }); err != nil {
		return nil, err
	}
	t := &tree{root: identify(cmd.Process.Pid, cmd.Env, group), cgroup: group, reaper: l.Reaper, pinned: true}
	return &child{cmd: cmd, tree: t, grace: command.KillGrace, reaper: l.Reaper}, nil
}

// wait waits for the command's end, which it brings about when ask ends, and ends what
// it left running.
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
		_ = syscall.Kill(-c.tree.root.PID, syscall.SIGKILL) // whoever could not be seen
	}
	c.reaper.wait(c.cmd)
	c.tree.cgroup.remove()
	exit.Code, exit.Signal = status(c.cmd.ProcessState)
	return exit
}

// status returns the exit code, or -1 and the signal. There is no state if
// somebody else has reaped our child.
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
