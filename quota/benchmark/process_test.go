package benchmark

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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

// Serve runs the test binary itself as a server of a kind: see TestServe.
func Serve(tb testing.TB, kind string, environment ...string) *Process {
	tb.Helper()
	socket := filepath.Join(shortDir(tb), "s")
	command := exec.Command(os.Args[0], "-test.run=^TestServe$", "-test.timeout=0")
	command.Env = append(os.Environ(), append(environment, socketVariable+"="+socket, kindVariable+"="+kind)...)
	command.Stderr = os.Stderr
	return Start(tb, socket, command)
}

// BuildQuotad builds the daemon, which is of another module, and returns its path.
func BuildQuotad(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(shortDir(tb), "quotad")
	build := exec.Command("go", "build", "-o", path, "./cmd/quotad")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// Quotad runs the daemon with a configuration, which names no state_dir and no socket.
func Quotad(tb testing.TB, path, config string) *Process {
	tb.Helper()
	dir := shortDir(tb)
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
