package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A process is one line of the kernel's table of processes, proc(5).
type process struct {
	pid     int
	parent  int
	group   int
	session int
	start   uint64 // in clock ticks since boot
	kernel  bool   // it is a thread of the kernel's own
	ending  bool   // the kernel takes it apart: nothing of it runs any more
	zombie  bool   // it has ended, and its parent has not reaped it yet
}

// readProcess looks a process up.
func readProcess(pid int) (process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	return parseStat(pid, stat)
}

// parseStat reads a process's stat file. Its second field, the program's name
// in parentheses, may itself hold spaces and parentheses: the rest is counted
// from the last one.
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
	const exiting, kernelThread = 0x4, 0x200000 // of linux/sched.h
	flags, _ := strconv.ParseUint(field(9), 10, 64)
	// A process whose first thread has ended is shown as a zombie, too, while
	// its other threads run.
	over := field(20) == "0" || field(20) == "1"
	p := process{
		pid:    pid,
		start:  start,
		kernel: flags&kernelThread != 0,
		ending: over && flags&exiting != 0,
		zombie: over && strings.Contains("ZX", field(3)),
	}
	p.parent, _ = strconv.Atoi(field(4))
	p.group, _ = strconv.Atoi(field(5))
	p.session, _ = strconv.Atoi(field(6))
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

// carries reports whether all marks are in an environment, of entries that each end in a NUL byte.
func carries(environ []byte, marks []string) bool {
	environ = append([]byte{0}, environ...)
	for _, mark := range marks {
		if !bytes.Contains(environ, []byte("\x00"+mark+"\x00")) {
			return false
		}
	}
	return len(marks) > 0
}

// processes returns what is in the process table.
func processes() []process {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	all := make([]process, 0, len(dirs))
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir)) // 0, and so no process, if it is another name
		if p, err := readProcess(pid); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// childrenOf returns the numbers of the children of a process. None is left out while
// it reaps none.
func childrenOf(pid int) []int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var all []int
	for _, list := range lists {
		all = append(all, numbersIn(list)...)
	}
	return all
}

// numbersIn returns those of the processes that a file of the kernel lists; none if it is gone.
func numbersIn(file string) (pids []int) {
	content, _ := os.ReadFile(file)
	for field := range strings.FieldsSeq(string(content)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// bootID returns what identifies this boot of the kernel: its id or, where a container hides
// that, the time at which it booted. A clock that is set changes that time. Then a boot is taken for
// another one, and what an earlier daemon left is not ended.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err == nil {
		return strings.TrimSpace(string(id)), nil
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return "", fmt.Errorf("cannot identify this boot: %w: quotad needs /proc, so mount it", err)
	}
	_, after, _ := strings.Cut(string(stat), "\nbtime ")
	booted, _, _ := strings.Cut(after, "\n")
	return "btime " + booted, nil
}
