package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"quotad/jobs"
)

// Identify returns what identifies a running process among all processes, also earlier and
// later ones: after an error as much as could be found out. The caller adds the cgroup.
func Identify(pid int) (jobs.Identity, error) {
	boot, err := bootID()
	p, unknown := readProcess(pid)
	if unknown != nil {
		err = fmt.Errorf("cannot identify process %d: %w", pid, unknown)
	}
	return jobs.Identity{BootID: boot, PID: pid, Start: p.start}, err
}

// EndLeftover ends what is left of a process that an earlier daemon started: TERM to what is in its cgroup or,
// without one, in its process group, and KILL after the grace. It reports whether anything was left. A process that
// only has the same number is not touched: without a cgroup nothing is, once the first process has ended.
//
// The error is the context's, if that ends the waiting, or says that something could not be ended.
func EndLeftover(ctx context.Context, id jobs.Identity, grace time.Duration) (ended bool, err error) {
	boot, err := bootID()
	if err != nil {
		return false, err
	}
	if boot != id.BootID {
		return false, nil
	}
	f := family{cgroup: cgroup(id.Cgroup)}
	if p, err := readProcess(id.PID); err == nil && p.start == id.Start && p.group == id.PID && !p.zombie {
		f.group = id.PID
	}
	defer f.cgroup.remove()
	if f.size() == 0 {
		return false, nil
	}
	left, err := f.end(ctx, context.Background(), grace, func() bool { return true })
	if err != nil {
		return false, fmt.Errorf("cannot wait for the end of process %d: %w", id.PID, err)
	}
	if left > 0 {
		return false, fmt.Errorf("cannot end process %d: processes of it that quotad may not signal, or that are stuck in the kernel: %d", id.PID, left)
	}
	return true, nil
}

// A process is one line of the kernel's table of processes, proc(5).
type process struct {
	pid    int
	group  int
	start  uint64 // in clock ticks since boot
	zombie bool   // it has ended, and its parent has not reaped it yet
}

// readProcess looks a process up.
func readProcess(pid int) (process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	return parseStat(pid, stat)
}

// parseStat reads a process's stat file. Its second field, the program's name in parentheses, may itself hold spaces
// and parentheses: the rest is counted from the last one.
func parseStat(pid int, stat []byte) (process, error) {
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if end < 0 || len(fields) < 36 {
		return process{}, fmt.Errorf("cannot understand the state of process %d: %q", pid, stat)
	}
	field := func(number int) string { return fields[number-3] } // as proc(5) numbers them
	start, err := strconv.ParseUint(field(22), 10, 64)
	if err != nil {
		return process{}, fmt.Errorf("cannot understand the start time of process %d: %w", pid, err)
	}
	// A process whose first thread has ended is shown as a zombie, too, while its other threads run.
	over := field(20) == "0" || field(20) == "1"
	p := process{pid: pid, start: start, zombie: over && strings.Contains("ZX", field(3))}
	p.group, _ = strconv.Atoi(field(5))
	return p, nil
}

// signal sends the process a signal, and never another one that has been given
// its number: the handle is taken first and then compared.
func (p process) signal(sig syscall.Signal) {
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return
	}
	defer handle.Release()
	if now, err := readProcess(p.pid); err == nil && now.start == p.start {
		_ = handle.Signal(sig)
	}
}

// bootID returns what identifies this boot of the kernel.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("cannot identify this boot: %w: quotad needs /proc, so mount it", err)
	}
	return strings.TrimSpace(string(id)), nil
}
