package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"quotad/jobs"
)

// A child is a command that has been started.
type child struct {
	cmd   *exec.Cmd
	grace time.Duration

	// mu guards what follows: os/exec cancels on a goroutine of its own.
	mu     sync.Mutex
	tree   *tree
	over   bool      // the command has ended: it is too late to end it
	cause  error     // why we ended it, if we did
	killAt time.Time // set when the tree was asked to end
}

// startChild starts a command that ends when ctx does. Its output goes to out.
func (l Launcher) startChild(ctx context.Context, command jobs.Command, out *output, group *cgroup) (*child, error) {
	attributes := &syscall.SysProcAttr{Setsid: true, Credential: l.User.credential()}
	if group != nil {
		dir, err := os.Open(group.dir)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		attributes.UseCgroupFD, attributes.CgroupFD = true, int(dir.Fd())
	}
	cmd := exec.CommandContext(ctx, command.Args[0], command.Args[1:]...)
	cmd.Dir = command.Dir
	cmd.Env = append([]string{}, command.Env...) // os/exec takes nil for our own environment
	// As files, so that os/exec does not wait for whoever else holds them.
	cmd.Stdout, cmd.Stderr = out.stdout.write, out.stderr.write
	cmd.SysProcAttr = attributes
	cmd.WaitDelay = command.KillGrace
	c := &child{cmd: cmd, grace: command.KillGrace}
	cmd.Cancel = func() error { return c.cancel(context.Cause(ctx)) }

	c.mu.Lock()
	defer c.mu.Unlock()
	began := time.Now()
	if err := l.User.start(cmd.Start); err != nil {
		return nil, err
	}
	c.tree = &tree{root: identify(cmd.Process.Pid, cmd.Env, group), cgroup: group, pinned: true, began: began}
	return c, nil
}

// cancel asks the command to end. The cause is recorded here, where it is known
// whether the command was still running: looked for later, a timer that fired
// after the command's own end would turn its success into a timeout.
func (c *child) cancel(cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.tree.rootEnded() {
		return os.ErrProcessDone
	}
	c.cause = cause
	c.killAt = time.Now().Add(c.grace)
	c.tree.terminate()
	return nil
}

// wait waits for the command's end and ends what it left running.
func (c *child) wait() jobs.Exit {
	if err := c.tree.awaitRoot(); err != nil {
		_ = c.cmd.Wait() // the next best thing, but now its number may be taken
		c.tree.pinned = false
	}
	swept := c.ended()
	exit := jobs.Exit{Cause: c.cause, Swept: swept}
	if swept > 0 {
		exit.Left, _ = c.tree.end(context.Background(), c.killAt)
	}
	if c.tree.pinned {
		_ = syscall.Kill(-c.tree.root.PID, syscall.SIGKILL) // whoever could not be seen
	}
	_ = c.cmd.Wait() // the state says more than the error
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

// ended notes that the command has ended, so that it is too late to end it, and
// returns how many processes it left. If they have not been asked to end, they
// are now.
func (c *child) ended() (left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.tree.forget()
	c.tree.scan()
	left = len(c.tree.known)
	if left > 0 && c.killAt.IsZero() {
		c.killAt = time.Now().Add(c.grace)
		c.tree.terminate()
	}
	return left
}
