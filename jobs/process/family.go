package process

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// A family is a process and what it has started: what is in its cgroup or, without one, in its process group.
type family struct {
	cgroup cgroup
	// group is the number of the process, which leads it. As long as a group has members, the kernel gives its
	// number to no other process.
	group int
}

const (
	// minPoll and maxPoll bound how often a family is polled for its end. The
	// kernel reports the end of our own children only.
	minPoll = time.Millisecond
	maxPoll = 50 * time.Millisecond
	// giveUpAfter is how long after KILL we wait for a process to end. One that
	// takes longer is another user's, or stuck in the kernel.
	giveUpAfter = 5 * time.Second
)

// end asks a family to end: TERM, and KILL after the grace or as soon as force ends. It returns when ended reports it
// and nothing is left, or how many live on all the same. The error is that of ctx, if that ends the waiting.
func (f family) end(ctx, force context.Context, grace time.Duration, ended func() bool) (left int, err error) {
	f.signal(syscall.SIGTERM)
	f.signal(syscall.SIGCONT) // a stopped process gets TERM only once it continues
	killAt, forced := time.Now().Add(grace), force.Done()
	for wait := minPoll; ; wait = min(2*wait, maxPoll) {
		isOver := ended()
		left = f.size()
		late := time.Since(killAt)
		if isOver && (left == 0 || late > giveUpAfter) {
			return left, nil
		}
		if late >= 0 {
			f.signal(syscall.SIGKILL)
		}
		select {
		case <-ctx.Done():
			return left, context.Cause(ctx)
		case <-forced:
			killAt, forced = time.Now(), nil
		case <-time.After(min(wait, max(minPoll, -late))):
		}
	}
}

// signal signals the group, and what has left it for another one within the cgroup.
func (f family) signal(sig syscall.Signal) {
	if f.group > 0 {
		_ = syscall.Kill(-f.group, sig)
	}
	if sig == syscall.SIGKILL {
		f.cgroup.kill()
		return
	}
	for _, p := range f.cgroup.processes() {
		if p.group != f.group {
			p.signal(sig)
		}
	}
}

// size returns how many of the family have not ended.
func (f family) size() (n int) {
	if f.cgroup != "" {
		return len(f.cgroup.processes())
	}
	if f.group <= 0 || errors.Is(syscall.Kill(-f.group, 0), syscall.ESRCH) {
		return 0
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir)) // 0, and so no process, if it is another name
		if p, err := readProcess(pid); err == nil && p.group == f.group && !p.zombie {
			n++
		}
	}
	return n
}
