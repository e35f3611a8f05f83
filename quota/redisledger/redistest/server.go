package redistest

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A Server is a Redis that lives as long as its test.
type Server struct {
	// Addr is its address as quotad's configuration has it.
	Addr string
	// Process is the redis-server, for tests that kill or stop it.
	Process *os.Process

	dir  string
	args []string
	done chan struct{} // closed when Process has ended
}

// Start starts an empty Redis on a private Unix socket, with further redis-server
// arguments if given. Where redis-server is not installed the test is skipped, or
// with CI=true fails.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s := prepare(tb, append([]string{"--save", "", "--appendonly", "no", "--port", "0"}, args...)...)
	s.Run(tb)
	return s
}

// prepare returns a server that does not run yet, in a directory of its own.
func prepare(tb testing.TB, args ...string) *Server {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("CI") == "true" {
		tb.Fatalf("redis-server is required and not installed: %v", err)
	} else if err != nil {
		tb.Skip("redis-server is not installed")
	}
	// A short path: names of sockets stop at 108 bytes.
	dir, err := os.MkdirTemp("", "redis")
	must(tb, err)
	s := &Server{Addr: "unix://" + filepath.Join(dir, "s"), dir: dir}
	s.args = append(args, "--unixsocket", s.socket(), "--dir", dir, "--logfile", filepath.Join(dir, "log"))
	tb.Cleanup(func() {
		s.Kill()
		os.RemoveAll(dir)
	})
	return s
}

// socket is the path at which the server listens whatever else it listens on.
func (s *Server) socket() string { return filepath.Join(s.dir, "s") }

// Run starts the process, also again after it was killed; its files are kept. It returns when the server answers: one
// that loads its files accepts connections before it serves them.
func (s *Server) Run(tb testing.TB) {
	tb.Helper()
	cmd := exec.Command("redis-server", s.args...)
	if err := cmd.Start(); err != nil {
		tb.Fatalf("cannot start redis-server: %v", err)
	}
	done := make(chan struct{})
	s.Process, s.done = cmd.Process, done
	go func() {
		cmd.Wait()
		close(done)
	}()
	Until(tb, "redis-server answers", func() bool {
		select {
		case <-done:
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			tb.Fatalf("redis-server has ended:\n%s", log)
		default:
		}
		value, err := s.ask("PING")
		if refused, ok := value.(error); ok { // it wants a password: it is there
			return strings.HasPrefix(refused.Error(), "NOAUTH")
		}
		return err == nil && value == "PONG"
	})
}

// Kill ends the process at once, as a crash would, and waits for its end.
func (s *Server) Kill() {
	if s.Process != nil {
		s.Process.Kill()
		<-s.done
	}
}

// Freeze stops the process where it is: it keeps its connections and answers
// nothing, until Thaw.
func (s *Server) Freeze() error { return s.Process.Signal(syscall.SIGSTOP) }

// Thaw continues a frozen process.
func (s *Server) Thaw() error { return s.Process.Signal(syscall.SIGCONT) }

// patience ends a test that hangs: whatever it waits for takes less, on a busy machine too.
const patience = 3 * time.Minute

// Until polls until something is so.
func Until(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	for deadline, tick := time.Now().Add(patience), time.NewTicker(10*time.Millisecond); !so(); <-tick.C {
		if time.Now().After(deadline) {
			tb.Fatalf("it does not come to pass that %s", what)
		}
	}
}

// Do sends a command on a connection of its own and returns what is answered: a
// string, an int64, nil, or a list of these. An error fails the test.
func (s *Server) Do(tb testing.TB, args ...string) any {
	tb.Helper()
	value, err := s.ask(args...)
	if refused, ok := value.(error); ok {
		err = refused
	}
	if err != nil {
		tb.Fatalf("redis does not %s: %v", args[0], err)
	}
	return value
}

// Order is Do for a command without spaces in its words, such as "FLUSHALL", that
// is to answer OK.
func (s *Server) Order(tb testing.TB, command string) {
	tb.Helper()
	if got := s.Do(tb, strings.Fields(command)...); got != "OK" {
		tb.Fatalf("redis answers %v to %s", got, command)
	}
}

// ask is Do on a server that may be down; an error of the server is a value.
func (s *Server) ask(args ...string) (any, error) {
	conn, err := net.DialTimeout("unix", s.socket(), time.Second)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return (&Conn{conn, bufio.NewReader(conn)}).Do(args...)
}

// Try sends a command, whatever becomes of it.
func (s *Server) Try(args ...string) { s.ask(args...) }

// A Conn is a connection to a server, for tests that send many commands.
type Conn struct {
	conn    net.Conn
	replies *bufio.Reader
}

// Dial connects to a server, until the test ends.
func (s *Server) Dial(tb testing.TB) *Conn {
	tb.Helper()
	conn, err := net.Dial("unix", s.socket())
	must(tb, err)
	tb.Cleanup(func() { conn.Close() })
	return &Conn{conn, bufio.NewReader(conn)}
}

// Do sends a command, and returns what is answered, as Server.Do does. An error that the server answers is a value.
func (c *Conn) Do(args ...string) (value any, err error) {
	c.conn.SetDeadline(time.Now().Add(patience))
	if _, err := c.conn.Write(format(args)); err != nil {
		return nil, err
	}
	value, _, err = read(c.replies, nil)
	return value, err
}

// must ends a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
