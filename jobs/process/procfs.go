package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
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
	thread  bool   // it is no process: the table answers for the numbers of threads, too
	kernel  bool   // it is a thread of the kernel's own
	ending  bool   // the kernel takes it apart: nothing of it runs any more
	zombie  bool   // it has ended, and its parent has not asked for its status yet
}

// readProcess looks a process up.
func readProcess(pid int) (process, error) {
	stat, err := readProc(strconv.Itoa(pid) + "/stat")
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
	// its other threads go on.
	over := field(20) == "0" || field(20) == "1"
	p := process{
		pid:    pid,
		start:  start,
		thread: field(38) == "-1", // the signal for its parent at its end: none
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

// environ returns the environment that a process was started with, as entries
// that each end in a NUL byte. It is empty if the process has none or has just
// begun to execute a program, and nil if it may not be read or is gone.
func environ(pid int) []byte {
	entries, err := readProc(strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	return entries
}

// carries tells whether all markers are in an environment.
func carries(environ []byte, markers []string) bool {
	environ = append([]byte{0}, environ...)
	for _, marker := range markers {
		if !bytes.Contains(environ, []byte("\x00"+marker+"\x00")) {
			return false
		}
	}
	return len(markers) > 0
}

// processes returns what is in the process table.
func processes() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	all := make([]process, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// startedAfter returns the processes that were started after a given one, as
// far as that can be told cheaply: numbers are given out in ascending order, so
// they are those between it and the newest. It is false when the numbers have
// begun anew meanwhile, or when there are too many of them to be cheap.
func startedAfter(pid int) ([]process, bool) {
	const cheap = 200
	newest, err := newestPID()
	if err != nil || newest < pid || newest-pid > cheap {
		return nil, false
	}
	var all []process
	for next := pid + 1; next <= newest; next++ {
		if p, err := readProcess(next); err == nil && !p.thread {
			all = append(all, p)
		}
	}
	return all, true
}

// newestPID returns the number that was given out last: the last field of
// loadavg. Threads are numbered from the same sequence.
func newestPID() (int, error) {
	load, err := readProc("loadavg")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(load)
	if len(fields) < 5 {
		return 0, fmt.Errorf("cannot understand /proc/loadavg: %q", load)
	}
	return strconv.Atoi(string(fields[4]))
}

// bootID returns what tells this boot of the kernel from every other.
func bootID() (string, error) {
	id, err := readProc("sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("cannot tell which boot this is: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// readProc reads a file of procfs by its name there. It is os.ReadFile without
// what that does for files that one could wait for: looking at a process costs
// half as much.
func readProc(name string) ([]byte, error) {
	fd, err := syscall.Open("/proc/"+name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/proc/" + name, Err: err}
	}
	defer syscall.Close(fd)
	content := make([]byte, 0, 1024)
	for {
		n, err := syscall.Read(fd, content[len(content):cap(content)])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: "/proc/" + name, Err: err}
		case n == 0:
			return content, nil
		}
		content = content[:len(content)+n]
		if len(content) == cap(content) {
			content = append(content, 0)[:len(content)]
		}
	}
}
