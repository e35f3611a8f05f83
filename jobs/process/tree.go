package process

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"quotad/jobs"
)

// A tree is the process of a command, its root, and what descends from it. In a
// cgroup that is exactly what is in there. Without one it is what is in the root's
// session, what has its markers in the environment, and their children. Only a
// cgroup holds a process that has left the session, was started with an emptied
// environment, and lost its parent between two scans.
type tree struct {
	root   jobs.Identity
	cgroup *cgroup

	// pinned: the root is our own child and not yet reaped, so that its number,
	// which is also its session's and its group's, is still its own.
	pinned bool
	began  time.Time // when a pinned root was started

	known []process // those found, and alive when last looked at
}

const (
	// firstPoll and slowestPoll bound how often a tree is polled for its end. The
	// kernel reports the end of our own children only.
	firstPoll   = time.Millisecond
	slowestPoll = 50 * time.Millisecond
	// giveUpAfter is how long after KILL we wait for a process to end. One that
	// takes longer is another user's, or stuck in the kernel.
	giveUpAfter = 5 * time.Second
)

// awaitRoot returns when the root has ended, and leaves it unreaped: until
// os/exec reaps it, nobody else can be given its number. A goroutine waits here,
// but no thread: hundreds of commands may run at once.
func (t *tree) awaitRoot() error {
	fd, err := unix.PidfdOpen(t.root.PID, 0)
	if err != nil { // Linux before 5.3
		_, err := ended(t.root.PID, 0)
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // os.NewFile polls no other
		unix.Close(fd)
		return os.NewSyscallError("fcntl", err)
	}
	handle := os.NewFile(uintptr(fd), "pidfd")
	defer handle.Close()
	conn, err := handle.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Read(func(uintptr) (over bool) { // it can be read once the process has ended
		over, failed = ended(t.root.PID, unix.WNOHANG)
		return over || failed != nil
	})
	return errors.Join(err, failed)
}

// ended tells whether a child of ours has ended, and leaves it unreaped. Without
// WNOHANG it waits for that.
func ended(pid, options int) (bool, error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
		if err != unix.EINTR {
			return info.Signo != 0, os.NewSyscallError("waitid", err)
		}
	}
}

// rootEnded tells whether the root has ended.
func (t *tree) rootEnded() bool {
	over, err := ended(t.root.PID, unix.WNOHANG)
	return over && err == nil
}

// terminate sends TERM, and CONT, since a stopped process gets TERM only once it
// continues.
func (t *tree) terminate() {
	t.scan()
	t.signal(syscall.SIGTERM)
	t.signal(syscall.SIGCONT)
}

func (t *tree) kill() {
	t.cgroup.kill()
	t.signal(syscall.SIGKILL)
}

// signal signals the root's group in one call, so that no process escapes by
// forking meanwhile, and the others one by one. A process may have left the group
// since the last scan: what becomes a daemon does.
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

// end waits until nothing is left of the tree, kills what is left at the time
// given, and returns how many live on all the same.
func (t *tree) end(ctx context.Context, killAt time.Time) (left int, err error) {
	var killed time.Time
	for wait := firstPoll; ; wait = min(2*wait, slowestPoll) {
		members := t.members()
		if len(members) == 0 || !killed.IsZero() && time.Since(killed) > giveUpAfter {
			return len(members), nil
		}
		grace := time.Until(killAt)
		if grace <= 0 {
			t.kill()
			if killed.IsZero() {
				killed = time.Now()
			}
		}
		select {
		case <-ctx.Done():
			return len(members), context.Cause(ctx)
		case <-time.After(min(wait, max(firstPoll, grace))):
		}
	}
}

// members returns the processes of the tree that have not ended. While some of
// those known live, it does not scan for others.
func (t *tree) members() []process {
	t.forget()
	if len(t.known) == 0 {
		t.scan()
	}
	return t.known
}

// forget forgets the members that have ended.
func (t *tree) forget() { t.known = slices.DeleteFunc(t.known, t.isGone) }

// scan adds the members that are not known yet.
func (t *tree) scan() {
	found := t.cgroup.processes()
	if t.cgroup == nil {
		found = t.find()
	}
	for _, p := range found {
		known := slices.ContainsFunc(t.known, func(k process) bool { return k.pid == p.pid && k.start == p.start })
		if !known {
			t.known = append(t.known, p)
		}
	}
}

// isGone tells whether a member has ended.
func (t *tree) isGone(p process) bool {
	now, err := readProcess(p.pid)
	if err != nil || now.start != p.start {
		return true
	}
	if now.zombie {
		t.reap(now)
	}
	return now.zombie
}

// reap reaps a member that became our own child when its parent ended before it, as
// orphans do if we are process 1 of a container. It never waits for just any child,
// and never for the root: those are os/exec's. An orphan that ended between two
// scans cannot be told from those and stays a zombie: such a container wants an
// init.
func (t *tree) reap(p process) {
	if t.pinned && p.parent == os.Getpid() && p.pid != t.root.PID {
		_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
	}
}

// find finds the members in the process table.
func (t *tree) find() []process {
	living := t.candidates()
	living = slices.DeleteFunc(living, func(p process) bool {
		if p.zombie && t.inSession(p) {
			t.reap(p)
		}
		return p.zombie || p.pid == os.Getpid()
	})
	related := t.related(living)
	return slices.DeleteFunc(living, func(p process) bool { return !related[p.pid] })
}

// candidates returns the processes among which the members are. A short-lived
// command need not pay for the size of the process table; of a longer one, the
// numbers may have begun anew more than once.
func (t *tree) candidates() []process {
	if t.pinned && time.Since(t.began) < time.Second {
		if some, ok := startedAfter(t.root.PID); ok {
			return some
		}
	}
	return processes()
}

// related returns the numbers of those processes that belong to the tree.
func (t *tree) related(all []process) map[int]bool {
	related := map[int]bool{}
	// Once the root is reaped, its number stands for its session as long as a
	// process with the markers is in there.
	numbered := t.pinned
	for _, p := range all {
		if t.isRoot(p) || t.hasMarkers(p) {
			related[p.pid] = true
			numbered = numbered || t.inSession(p)
		}
	}
	for _, p := range all {
		if numbered && t.inSession(p) {
			related[p.pid] = true
		}
	}
	t.addChildren(related, all)
	return related
}

// addChildren adds the children of those who are related, and theirs.
func (t *tree) addChildren(related map[int]bool, all []process) {
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			child := related[p.parent] || t.pinned && p.parent == t.root.PID
			if child && !related[p.pid] {
				related[p.pid] = true
				grown = true
			}
		}
	}
}

func (t *tree) isRoot(p process) bool {
	return p.pid == t.root.PID && p.start == t.root.Start
}

// hasMarkers tells whether a process has the root's markers in its environment. While
// a process executes another program its environment is empty for a moment: without
// a second look, a daemon that is being started would escape.
func (t *tree) hasMarkers(p process) bool {
	const tries, between = 25, 2 * time.Millisecond // on a busy machine a moment may last
	if len(t.root.Marks) == 0 || p.start < t.root.Start {
		return false
	}
	for range tries {
		if p.kernel || p.ending {
			return false
		}
		found := environ(p.pid)
		if found == nil || len(found) > 0 {
			return carries(found, t.root.Marks)
		}
		time.Sleep(between)
		now, err := readProcess(p.pid)
		if err != nil {
			return false
		}
		p = now
	}
	return false
}

// inSession tells whether a process is in the root's session. The root's group is
// part of it: no group reaches beyond its session.
func (t *tree) inSession(p process) bool {
	return t.root.PID != 0 && p.session == t.root.PID
}
