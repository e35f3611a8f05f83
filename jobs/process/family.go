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

// A family is the process of a command, the leader, and what descends from it.
// In a cgroup that is exactly who is in there. Without one it is whoever is in
// the leader's session, whoever carries its marks, and their children. A process
// that misses all of these has left the session, was started with an emptied
// environment, and lost its parent before anybody looked: only a cgroup holds
// it.
type family struct {
	leader jobs.Identity
	cgroup *cgroup

	// pinned: the leader is our own child and not yet reaped, so that its
	// number, which is also its session's and its group's, is still its own.
	pinned bool
	began  time.Time // when a pinned leader was started

	known []process // as far as seen, and alive when last looked at
}

const (
	// firstLook and slowestLook bound how often we look whether a family has
	// ended. Nothing would tell us: most of it are not our children.
	firstLook   = time.Millisecond
	slowestLook = 50 * time.Millisecond
	// hopeless is how long after KILL a process may live before it is given up:
	// it is another user's, or stuck in the kernel.
	hopeless = 5 * time.Second
)

// awaitLeader returns when the leader has ended, and leaves it unreaped: until
// os/exec reaps it, nobody else can be given its number. A goroutine waits here,
// but no thread: hundreds of commands may run at once.
func (f *family) awaitLeader() error {
	fd, err := unix.PidfdOpen(f.leader.PID, 0)
	if err != nil { // Linux before 5.3
		_, err := ended(f.leader.PID, 0)
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
		over, failed = ended(f.leader.PID, unix.WNOHANG)
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

// leaderEnded tells whether the leader has ended.
func (f *family) leaderEnded() bool {
	over, err := ended(f.leader.PID, unix.WNOHANG)
	return over && err == nil
}

// ask asks the family to end. Who is stopped hears of it on being continued.
func (f *family) ask() {
	f.look()
	f.signal(syscall.SIGTERM)
	f.signal(syscall.SIGCONT)
}

func (f *family) kill() {
	f.cgroup.kill()
	f.signal(syscall.SIGKILL)
}

// signal reaches the leader's group in one stroke, so that nobody slips away by
// forking meanwhile, and the others one by one. Who was in the group when last
// looked at may have left it since: what is about to be a daemon does.
func (f *family) signal(sig syscall.Signal) {
	if f.pinned {
		_ = syscall.Kill(-f.leader.PID, sig)
	}
	for _, p := range f.members() {
		now, err := readProcess(p.pid)
		if err == nil && !(f.pinned && now.group == f.leader.PID) {
			p.signal(sig)
		}
	}
}

// end waits until nothing is left of the family, kills what is left at the time
// given, and returns how many live on all the same.
func (f *family) end(ctx context.Context, killAt time.Time) (left int, err error) {
	var killed time.Time
	for wait := firstLook; ; wait = min(2*wait, slowestLook) {
		members := f.members()
		if len(members) == 0 || !killed.IsZero() && time.Since(killed) > hopeless {
			return len(members), nil
		}
		grace := time.Until(killAt)
		if grace <= 0 {
			f.kill()
			if killed.IsZero() {
				killed = time.Now()
			}
		}
		select {
		case <-ctx.Done():
			return len(members), context.Cause(ctx)
		case <-time.After(min(wait, max(firstLook, grace))):
		}
	}
}

// members returns who of the family has not ended. While some of those known
// live, it does not look for others.
func (f *family) members() []process {
	f.forget()
	if len(f.known) == 0 {
		f.look()
	}
	return f.known
}

// forget forgets the members that have ended.
func (f *family) forget() { f.known = slices.DeleteFunc(f.known, f.isGone) }

// look looks for members that are not known yet.
func (f *family) look() {
	found := f.cgroup.processes()
	if f.cgroup == nil {
		found = f.find()
	}
	for _, p := range found {
		known := slices.ContainsFunc(f.known, func(k process) bool { return k.pid == p.pid && k.start == p.start })
		if !known {
			f.known = append(f.known, p)
		}
	}
}

// isGone tells whether a member has ended.
func (f *family) isGone(p process) bool {
	now, err := readProcess(p.pid)
	if err != nil || now.start != p.start {
		return true
	}
	if now.zombie {
		f.bury(now)
	}
	return now.zombie
}

// bury reaps a member that became our own child when its parent ended before
// it, as orphans do if we are process 1 of a container. It never asks for just
// any child, and never for the leader: those are os/exec's. What was marked and
// ended unseen cannot be told from those and stays: such a container wants an
// init.
func (f *family) bury(p process) {
	if f.pinned && p.parent == os.Getpid() && p.pid != f.leader.PID {
		_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
	}
}
