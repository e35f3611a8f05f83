package benchmark

import (
	"bytes"
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

	"quotad/quota/redisledger/redistest"
)

// A Process is a server that is measured. It ends with its test.
type Process struct {
	PID    int
	Socket string
}

// Start runs a command as a server and waits until it accepts connections at a socket.
func Start(tb testing.TB, socket string, command *exec.Cmd) *Process {
	tb.Helper()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	redistest.Until(tb, command.Path+" listens", func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return &Process{PID: command.Process.Pid, Socket: socket}
}

// Serve runs the test binary itself as a server of a kind: see TestServe.
func Serve(tb testing.TB, kind string, redis *Process) *Process {
	tb.Helper()
	socket := filepath.Join(shortDir(tb), "s")
	command := exec.Command(os.Args[0], "-test.run=^TestServe$", "-test.timeout=0")
	command.Env = append(os.Environ(), socketVariable+"="+socket, kindVariable+"="+kind, redisVariable+"="+redis.Socket)
	command.Stderr = os.Stderr
	return Start(tb, socket, command)
}

// Quotad builds the daemon, which is of another module, and runs it with a configuration, which names no state_dir and
// no socket.
func Quotad(tb testing.TB, config string) *Process {
	tb.Helper()
	dir := shortDir(tb)
	build := exec.Command("go", "build", "-o", dir, "./cmd/quotad")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("go build: %v\n%s", err, out)
	}
	file := filepath.Join(dir, "config.toml")
	config = fmt.Sprintf("state_dir = %q\nlog.level = \"error\"\n%s", dir, config)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	command := exec.Command(filepath.Join(dir, "quotad"), "--config", file)
	command.Stderr = os.Stderr
	return Start(tb, filepath.Join(dir, "quotad.sock"), command)
}

// cpu returns the time that the kernel has counted for a process, in steps of 10 ms.
func (p *Process) cpu(tb testing.TB) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	if err != nil {
		tb.Fatal(err)
	}
	// Behind the name, which is in parentheses and may hold anything, utime and stime are the fields 11 and 12: proc(5).
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
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
