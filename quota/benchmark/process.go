package benchmark

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A Process is a server that is measured. It ends with its test.
type Process struct {
	PID    int
	Socket string
}

// Start runs a command as a server and waits until it accepts connections at a
// socket.
func Start(tb testing.TB, socket string, command *exec.Cmd) *Process {
	tb.Helper()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		tb.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		command.Wait()
		close(ended)
	}()
	tb.Cleanup(func() {
		command.Process.Kill()
		<-ended
	})
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close()
			return &Process{PID: command.Process.Pid, Socket: socket}
		}
		select {
		case <-ended:
			tb.Fatalf("%s ended before it listened at %s", command.Path, socket)
		case <-ticker.C:
		}
	}
}

// Again runs the test binary itself as a server: its test of that name, which finds
// the socket, and its other settings, in its environment.
func Again(tb testing.TB, test string, environment ...string) *Process {
	tb.Helper()
	socket := filepath.Join(shortDir(tb), "s")
	command := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.timeout=0")
	command.Env = append(os.Environ(), append(environment, SocketVariable+"="+socket)...)
	command.Stderr = os.Stderr
	return Start(tb, socket, command)
}

// SocketVariable is where a server that Again started finds its socket's path.
const SocketVariable = "QUOTAD_CHILD_SOCKET"

// BuildQuotad builds the daemon from this repository and returns its path. The
// working directory is one of the repository's.
func BuildQuotad(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(shortDir(tb), "quotad")
	if out, err := exec.Command("go", "build", "-o", path, "quotad/cmd/quotad").CombinedOutput(); err != nil {
		tb.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// Quotad runs the daemon with a configuration, which names no state_dir and no socket.
func Quotad(tb testing.TB, path, config string) *Process {
	tb.Helper()
	return QuotadIn(tb, path, shortDir(tb), config)
}

// QuotadIn does so with a directory for its state, whose path is short.
func QuotadIn(tb testing.TB, path, dir, config string) *Process {
	tb.Helper()
	file := filepath.Join(dir, "config.toml")
	config = fmt.Sprintf("state_dir = %q\n%s\n[log]\nlevel = \"error\"\n", dir, config)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	command := exec.Command(path, "--config", file)
	command.Stderr = os.Stderr
	return Start(tb, filepath.Join(dir, "quotad.sock"), command)
}

// CPU returns the time that the kernel has counted for a process, in steps of 10 ms.
func CPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// Behind the name, which stands in parentheses and may hold anything: proc(5)
	// counts utime and stime as fields 14 and 15, so 11 and 12 from there.
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	fields := strings.Fields(rest)
	ticks := 0
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// switches returns how often the threads of a process have given up a CPU, or lost it. Those of a thread that has
// ended are not counted.
func switches(pid int) (n int, err error) {
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(paths) == 0 {
		return 0, fmt.Errorf("process %d has no threads: %w", pid, err)
	}
	for _, path := range paths {
		status, _ := os.ReadFile(path) // the thread may have ended
		for line := range strings.Lines(string(status)) {
			if name, value, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "voluntary_ctxt_switches") {
				count, err := strconv.Atoi(strings.TrimSpace(value))
				if err != nil {
					return 0, err
				}
				n += count
			}
		}
	}
	return n, nil
}

// systemCalls counts the system calls of a process by strace while f runs, which slows it. ours leaves out those by
// which Go's scheduler parks threads and wakes them: a slow process makes more of them.
func systemCalls(pid int, f func()) (all, ours int, err error) {
	var counted strings.Builder
	command := exec.Command("strace", "-f", "-c", "-p", strconv.Itoa(pid))
	command.Stderr = &counted
	attached, err := tracedAfter(command, pid)
	if err == nil && attached {
		f()
	}
	if command.Process == nil {
		return 0, 0, err
	}
	command.Process.Signal(os.Interrupt)
	command.Wait() // it ends by the signal
	if err == nil && !attached {
		err = fmt.Errorf("strace does not trace: %.200s", counted.String())
	}
	for line := range strings.Lines(counted.String()) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[len(fields)-1] == "total" {
			continue
		}
		n, err := strconv.Atoi(fields[3])
		if err != nil {
			continue
		}
		if all += n; !slices.Contains(parking, fields[len(fields)-1]) {
			ours += n
		}
	}
	return all, ours, err
}

var parking = []string{"futex", "nanosleep", "epoll_pwait", "sched_yield", "tgkill", "getpid", "rt_sigreturn", "restart_syscall"}

// tracedAfter starts a tracer, and waits until it traces each thread of a process, or ends.
func tracedAfter(tracer *exec.Cmd, pid int) (bool, error) {
	if err := tracer.Start(); err != nil {
		return false, err
	}
	for range 500 {
		paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		traced := 0
		for _, path := range paths {
			status, _ := os.ReadFile(path)
			if strings.Contains(string(status), fmt.Sprintf("TracerPid:\t%d\n", tracer.Process.Pid)) {
				traced++
			}
		}
		if traced > 0 && traced == len(paths) {
			return true, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false, nil
}

// shortDir is a directory in which names of sockets stay below 108 bytes.
func shortDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
