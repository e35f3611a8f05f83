package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ReserveTasks keeps room for this process if a command forks without end: from
// now on this process may have as many processes and threads as its
// hard limit allows (RLIMIT_NPROC, see getrlimit(2)), and commands are to have
// the soft limit that it was started with, which ReserveTasks returns. It is 0
// where both are the same. The limit counts all tasks of a user, and does not
// hold root.
//
// Commands that run as another user are not counted with us, and we may not limit
// them once they run: they inherit the soft limit, which becomes ours for good.
func ReserveTasks(user *User) (commands uint64, err error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err != nil {
		return 0, fmt.Errorf("cannot read how many processes are allowed: %w", err)
	}
	if limit.Cur == limit.Max {
		return 0, nil
	}
	if user == nil {
		commands, limit.Cur = limit.Cur, limit.Max
	} else {
		limit.Max = limit.Cur
	}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &limit); err != nil {
		return 0, fmt.Errorf("cannot reserve processes for quotad itself: %w", err)
	}
	return commands, nil
}

// limitTasks limits a command that has just been started, for good. What it has
// started already has inherited our limit, and is limited too; what it starts
// from now on inherits its own.
func limitTasks(pid int, tasks uint64) {
	if tasks == 0 {
		return
	}
	limit := unix.Rlimit{Cur: tasks, Max: tasks}
	if err := unix.Prlimit(pid, unix.RLIMIT_NPROC, &limit, nil); err != nil {
		return // it has ended
	}
	for _, child := range childrenOf(pid) {
		limitTasks(child, tasks)
	}
}
