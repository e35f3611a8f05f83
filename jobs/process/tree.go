package process

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"quotad/jobs"
)

// A tree is the process of a command, its root, and what descends from it: what is in its
// cgroup, in the root's session, or has its marks in the environment, and their children; with
// a Reaper also the orphans that can come from no other command.
type tree struct {
	root   jobs.Identity
	cgroup cgroup
	reaper *Reaper

	// pinned: the root is our own child and not yet reaped, so that its number,
	// which is also its session's and its group's, is still its own.
	pinned bool

	known []process // those found last: they stay members without their parents
}

const (
	// minPoll and maxPoll bound how often a tree is polled for its end. The
	// kernel reports the end of our own children only.
	minPoll = time.Millisecond
	maxPoll = 50 * time.Millisecond
	// giveUpAfter is how long after KILL we wait for a process to end. One that
	// takes longer is another user's, or stuck in the kernel.
	giveUpAfter = 5 * time.Second
)

// awaitRoot returns when the root has ended, or ctx, and reports whether the root has. It
// leaves it unreaped: until os/exec reaps it, no other process gets its number.
// A goroutine waits here, but no thread: hundreds of commands may run at once.
func (t *tree) awaitRoot(ctx context.Context) (ended bool) {
	if fd, err := unix.PidfdOpen(t.root.PID, unix.PIDFD_NONBLOCK); err == nil {
		handle := os.NewFile(uintptr(fd), "pidfd")
		defer handle.Close()
		defer context.AfterFunc(ctx, func() { _ = handle.SetReadDeadline(time.Now()) })()
		if conn, err := handle.SyscallConn(); err == nil {
			_ = conn.Read(func(uintptr) bool { return t.rootEnded() }) // it can be read once the process has ended
		}
	}
	for !t.rootEnded() && ctx.Err() == nil { // Linux before 5.10
		time.Sleep(maxPoll)
	}
	return t.rootEnded()
}

// rootEnded reports whether the root has ended.
func (t *tree) rootEnded() bool {
	if !t.pinned {
		return true
	}
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, t.root.PID, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
		switch err {
		case nil:
			return info.Signo != 0
		case unix.EINTR:
		default: // it was reaped elsewhere, and its number may be another's
			t.pinned = false
			return true
		}
	}
}

// end asks the tree to end: TERM, and KILL after the grace or as soon as force ends. It
// returns when nothing is left, or how many live on all the same. The error is that of
// ctx, if that ends the waiting.
func (t *tree) end(ctx, force context.Context, grace time.Duration) (left int, err error) {
	t.signal(syscall.SIGTERM)
	t.signal(syscall.SIGCONT) // a stopped process gets TERM only once it continues
	killAt, forced := time.Now().Add(grace), force.Done()
	for wait := minPoll; ; wait = min(2*wait, maxPoll) {
		left = len(t.members())
		late := time.Since(killAt)
		if t.rootEnded() && (left == 0 || late > giveUpAfter) {
			return left, nil
		}
		if late >= 0 {
			t.cgroup.kill()
			t.signal(syscall.SIGKILL)
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

// signal signals the root's group in one call, so that no process escapes by
// forking meanwhile, and the others one by one. A process may have left the group
// since members read it: one that becomes a daemon does.
func (t *tree) signal(sig syscall.Signal) {
	if t.pinned {
		_ = syscall.Kill(-t.root.PID, sig)
	}
	for _, p := range t.members() {
		now, err := readProcess(p.pid)
		if err == nil && !(t.pinned && now.group == t.root.PID) {
			p.signal(sig)
		}
	}
}

// members returns the processes of the tree that have not ended: those in the cgroup and those
// that have left it.
func (t *tree) members() []process {
	all, related := t.candidates(), make(map[int]bool)
	for _, p := range t.cgroup.processes() {
		all[p.pid], related[p.pid] = p, true
	}
	t.relate(all, related)
	t.known = nil
	for _, p := range all {
		if related[p.pid] && !p.zombie && p.pid != os.Getpid() {
			t.known = append(t.known, p)
		}
	}
	return t.known
}

// candidates returns the processes among which the members are, by their numbers. Where orphans
// come to us, those are the root, the orphans, and what descends from them.
func (t *tree) candidates() map[int]process {
	all := make(map[int]process)
	if t.reaper == nil {
		for _, p := range processes() {
			all[p.pid] = p
		}
		return all
	}
	root, err := readProcess(t.root.PID) // first: what it leaves behind is an orphan then
	next := t.reaper.orphans()
	if err == nil {
		next = append(next, root)
	}
	for ; len(next) > 0; next = next[1:] {
		all[next[0].pid] = next[0]
		for _, pid := range childrenOf(next[0].pid) {
			if p, err := readProcess(pid); err == nil {
				next = append(next, p)
			}
		}
	}
	return all
}

// relate adds the numbers of those processes that belong to the tree.
func (t *tree) relate(all map[int]process, related map[int]bool) {
	// Once the root is reaped, its number is that of its session as long as a
	// process with the marks is in there.
	numbered := t.pinned
	for _, p := range all {
		if related[p.pid] || t.isRoot(p) || t.isKnown(p) || t.hasMarks(p) || t.reaper.attributes(p, t.root.PID) {
			related[p.pid] = true
			numbered = numbered || t.inSession(p)
		}
	}
	for _, p := range all {
		if numbered && t.inSession(p) {
			related[p.pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if related[p.parent] && !related[p.pid] {
				related[p.pid], grown = true, true
			}
		}
	}
}

func (t *tree) isRoot(p process) bool {
	return p.pid == t.root.PID && (t.pinned || p.start == t.root.Start)
}

func (t *tree) isKnown(p process) bool {
	return slices.ContainsFunc(t.known, func(k process) bool { return k.pid == p.pid && k.start == p.start })
}

// hasMarks reports whether a process has the root's marks in its environment. While
// a process executes another program its environment is empty for a moment: without
// a second try, a daemon that is being started would escape.
func (t *tree) hasMarks(p process) bool {
	const tries, between = 25, 2 * time.Millisecond // on a busy machine a moment may last
	if len(t.root.Marks) == 0 || p.start < t.root.Start {
		return false
	}
	for range tries {
		if p.kernel || p.ending {
			return false
		}
		// Empty, too, if there is none; not to be read, or gone, it has no marks.
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if err != nil || len(environ) > 0 {
			return carries(environ, t.root.Marks)
		}
		time.Sleep(between)
		if p, err = readProcess(p.pid); err != nil {
			return false
		}
	}
	return false
}

// inSession reports whether a process is in the root's session. The root's group is
// part of it: no group reaches beyond its session.
func (t *tree) inSession(p process) bool {
	return t.root.PID != 0 && p.session == t.root.PID
}
