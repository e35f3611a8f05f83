package process

import (
	"os"
	"slices"
	"time"
)

// find finds the members by the process table.
func (f *family) find() []process {
	living := f.candidates()
	living = slices.DeleteFunc(living, func(p process) bool {
		if p.zombie && f.inSession(p) {
			f.bury(p)
		}
		return p.zombie || p.pid == os.Getpid()
	})
	related := f.related(living)
	return slices.DeleteFunc(living, func(p process) bool { return !related[p.pid] })
}

// candidates returns the processes among which the members are. A short-lived
// command need not pay for the size of the process table; of a longer one, the
// numbers may have begun anew more than once.
func (f *family) candidates() []process {
	if f.pinned && time.Since(f.began) < time.Second {
		if some, ok := startedAfter(f.leader.PID); ok {
			return some
		}
	}
	return processes()
}

// related returns the numbers of those processes that belong to the family.
func (f *family) related(all []process) map[int]bool {
	related := map[int]bool{}
	// Where the leader is gone and reaped, its number stands for its session as
	// long as somebody is in there who carries the marks.
	numbered := f.pinned
	for _, p := range all {
		if f.isLeader(p) || f.isMarked(p) {
			related[p.pid] = true
			numbered = numbered || f.inSession(p)
		}
	}
	for _, p := range all {
		if numbered && f.inSession(p) {
			related[p.pid] = true
		}
	}
	f.addChildren(related, all)
	return related
}

// addChildren adds the children of those who are related, and theirs.
func (f *family) addChildren(related map[int]bool, all []process) {
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			child := related[p.parent] || f.pinned && p.parent == f.leader.PID
			if child && !related[p.pid] {
				related[p.pid] = true
				grown = true
			}
		}
	}
}

func (f *family) isLeader(p process) bool {
	return p.pid == f.leader.PID && p.start == f.leader.Start
}

// isMarked tells whether a process carries the leader's marks. One that is just
// about to execute another program has no environment for a moment: without a
// second look, a daemon that is being started would get away.
func (f *family) isMarked(p process) bool {
	const looks, between = 25, 2 * time.Millisecond // on a busy machine a moment may last
	if len(f.leader.Marks) == 0 || p.start < f.leader.Start {
		return false
	}
	for range looks {
		if p.kernel || p.ending {
			return false
		}
		found := environ(p.pid)
		if found == nil || len(found) > 0 {
			return carries(found, f.leader.Marks)
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

// inSession tells whether the leader's number is that of a process's session.
// The leader's group is part of it: no group reaches beyond its session.
func (f *family) inSession(p process) bool {
	return f.leader.PID != 0 && p.session == f.leader.PID
}
