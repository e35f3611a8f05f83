package process

import (
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Reaper adopts what commands leave behind: their orphans become children of this
// process instead of process 1, and it reaps those that end. Once there is one, nothing
// but launchers with it may start processes: it reaps whatever they have not started.
// A nil Reaper adopts nothing.
type Reaper struct {
	// exclusive: no orphans but those of commands come to us. Others would if we were process
	// 1 of a container, or if a shell had started something and then became quotad by exec.
	exclusive bool

	mu      sync.Mutex     // held while a command is started or reaped, and while orphans are collected
	started map[int]uint64 // when each command began that is not reaped yet, by its number

	ended   chan os.Signal // one if a child has ended
	reaping sync.WaitGroup
}

// NewReaper returns a reaper, see PR_SET_CHILD_SUBREAPER(2const). It needs to be closed.
func NewReaper() (*Reaper, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	r := &Reaper{
		exclusive: os.Getpid() != 1 && len(childrenOf(os.Getpid())) == 0,
		started:   map[int]uint64{}, ended: make(chan os.Signal, 1),
	}
	signal.Notify(r.ended, syscall.SIGCHLD)
	r.reaping.Go(func() {
		for range r.ended {
			r.orphans()
		}
	})
	return r, nil
}

// Close ends the reaping. Orphans still come to us.
func (r *Reaper) Close() error {
	if r != nil {
		signal.Stop(r.ended)
		close(r.ended)
		r.reaping.Wait()
	}
	return nil
}

// start starts a command.
func (r *Reaper) start(cmd *exec.Cmd) error {
	if r == nil {
		return cmd.Start()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	p, _ := readProcess(cmd.Process.Pid)
	r.started[cmd.Process.Pid] = p.start
	return nil
}

// wait reaps a command that has ended.
func (r *Reaper) wait(cmd *exec.Cmd) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		defer delete(r.started, cmd.Process.Pid)
	}
	_ = cmd.Wait() // its state says more than the error
}

// orphans reaps the orphans that have ended and returns the others. What one that has
// ended leaves is ours before we may reap it, and one may end while we look: another
// look finds both.
func (r *Reaper) orphans() []process {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var living []process
		again := false
		for _, pid := range childrenOf(os.Getpid()) {
			if _, started := r.started[pid]; started {
				continue
			}
			if n, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); n == pid {
				again = true
			} else if p, err := readProcess(pid); err == nil {
				again = again || p.zombie
				living = append(living, p)
			}
		}
		if !again {
			return living
		}
	}
}

// attributes reports whether an orphan can only come from this command, or from one that has
// ended: all others that run have begun after it.
func (r *Reaper) attributes(orphan process, root int) bool {
	if r == nil || !r.exclusive || orphan.parent != os.Getpid() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for pid, start := range r.started {
		if pid != root && start <= orphan.start {
			return false
		}
	}
	return true
}
