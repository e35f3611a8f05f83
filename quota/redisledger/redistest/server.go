// Package redistest starts a Redis for a test: a redis-server process of its own
// on a private Unix socket, or where none is installed an in-process stand-in.
package redistest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// A Server is a Redis that lives as long as its test.
type Server struct {
	// Addr is its address as quotad's configuration has it.
	Addr string
	// Real is false of the stand-in, which knows no processes, files or signals.
	Real bool
	// Process is the redis-server, for tests that kill or stop it.
	Process *os.Process

	dir  string
	args []string
	done chan struct{} // closed when Process has ended
}

var standInNotice sync.Once

// Start starts an empty Redis, with further redis-server arguments if given. With
// QUOTAD_TEST_REDIS=require the absence of redis-server fails the test; without
// it the test gets a stand-in, and the test binary says so once.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("QUOTAD_TEST_REDIS") == "require" {
			tb.Fatalf("redis-server is required and not installed: %v", err)
		}
		standInNotice.Do(func() {
			fmt.Fprintln(os.Stderr, "redis-server is not installed: testing on an in-process stand-in")
		})
		return &Server{Addr: miniredis.RunT(tb).Addr()}
	}
	// A short path: names of sockets stop at 108 bytes.
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{Addr: "unix://" + filepath.Join(dir, "s"), Real: true, dir: dir, args: args}
	tb.Cleanup(func() {
		s.Kill()
		os.RemoveAll(dir)
	})
	s.Run(tb)
	return s
}

// Run starts the process, also again after it was killed; its files are kept.
func (s *Server) Run(tb testing.TB) {
	tb.Helper()
	args := append([]string{
		"--port", "0", "--unixsocket", filepath.Join(s.dir, "s"), "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--logfile", filepath.Join(s.dir, "log"), "--enable-debug-command", "local",
	}, s.args...)
	cmd := exec.Command("redis-server", args...)
	if err := cmd.Start(); err != nil {
		tb.Fatalf("cannot start redis-server: %v", err)
	}
	s.Process = cmd.Process
	s.done = make(chan struct{})
	go func() {
		cmd.Wait()
		close(s.done)
	}()
	s.await(tb)
}

// Order sends one command without spaces in its words, such as "FLUSHALL", and
// expects the answer OK.
func (s *Server) Order(tb testing.TB, command string) {
	tb.Helper()
	if got := ask(filepath.Join(s.dir, "s"), command); got != "+OK" {
		tb.Fatalf("redis answers %q to %s", got, command)
	}
}

// Kill ends the process at once, as a crash would, and waits for its end.
func (s *Server) Kill() {
	if s.Process != nil {
		s.Process.Kill()
		<-s.done
	}
}

// startTimeout is how long a server may take until it accepts connections.
const startTimeout = 20 * time.Second

// await returns when the server answers.
func (s *Server) await(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		if answers(filepath.Join(s.dir, "s")) {
			tick.Stop()
			return
		}
		select {
		case <-tick.C:
		case <-s.done:
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			tb.Fatalf("redis-server ended at once:\n%s", log)
		case <-ctx.Done():
			tb.Fatalf("redis-server does not answer after %v", startTimeout)
		}
	}
}

// answers looks for the answer to a PING: a server that loads its files accepts
// connections before it serves them.
func answers(path string) bool { return ask(path, "PING") == "+PONG" }

// ask returns the first line of the answer to a command, empty if there is none.
func ask(path, command string) string {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write([]byte(command + "\r\n")); err != nil {
		return ""
	}
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line)
}
