package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"quotad/quota"
)

// noopSocket makes the test binary a server that does nothing, on that socket: a
// floor must be a process of its own, as the daemon is.
const noopSocket = "QUOTAD_CHILD_NOOP"

func serveNoop(socket string) error {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	fmt.Println("serving")
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"granted":true}`)
	}))
}

// noop starts the server that does nothing.
func noop(t *testing.T) (socket string) {
	t.Helper()
	socket = filepath.Join(shortDir(t), "s")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), noopSocket+"="+socket)
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return socket
}

// begin begins what a load consists of beside the hammering, and returns when every
// connection stands; end ends it.
func (s *loadClients) begin(t *testing.T, l loadCounts) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var standing, running sync.WaitGroup
	standing.Add(l.connections)
	for i := range l.connections {
		running.Go(func() { s.hold(ctx, time.Duration(i)*time.Millisecond, standing.Done) })
	}
	for _, part := range []struct {
		count int
		work  func(context.Context)
	}{{l.slow, s.readSlowly}, {l.halfOpen, s.keepHalfOpen}, {l.abrupt, s.hangUp}} {
		for range part.count {
			running.Go(func() {
				for ctx.Err() == nil {
					part.work(ctx)
				}
			})
		}
	}
	standing.Wait()
	return func() {
		cancel()
		running.Wait()
	}
}

// dial connects, and tries again as long as too many do; closing ends with the
// load.
func (s *loadClients) dial(ctx context.Context) net.Conn {
	for ctx.Err() == nil {
		conn, err := net.Dial("unix", s.socket)
		if err == nil {
			context.AfterFunc(ctx, func() { conn.Close() })
			return conn
		}
		if !errors.Is(err, syscall.EAGAIN) {
			s.complain("cannot connect: %v", err)
			return nil
		}
		quota.Sleep(ctx, 10*time.Millisecond)
	}
	return nil
}

// hold keeps a connection open and asks something every other second, sooner than
// the daemon takes it for idle.
func (s *loadClients) hold(ctx context.Context, offset time.Duration, stands func()) {
	stands = sync.OnceFunc(stands)
	defer stands()
	conn := s.dial(ctx)
	if conn == nil {
		return
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for wait := offset; quota.Sleep(ctx, wait); wait = 2 * time.Second {
		if err := exchange(conn, in); err != nil {
			if ctx.Err() == nil {
				s.complain("a connection that is held: %v", err)
			}
			return
		}
		stands()
	}
}

// exchange asks whether the daemon is alive.
func exchange(conn net.Conn, in *bufio.Reader) error {
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: quotad\r\n\r\n"); err != nil {
		return err
	}
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

// readSlowly asks for much and takes a byte now and then, until it is cut off.
func (s *loadClients) readSlowly(ctx context.Context) {
	conn := s.dial(ctx)
	if conn == nil {
		return
	}
	defer conn.Close()
	go func() { // ends with the connection
		for err := error(nil); err == nil; {
			_, err = io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: quotad\r\n\r\n")
		}
	}()
	one := make([]byte, 1)
	for quota.Sleep(ctx, 20*time.Millisecond) {
		if _, err := conn.Read(one); err != nil {
			return
		}
	}
}

// keepHalfOpen begins a request and waits until it is cut off.
func (s *loadClients) keepHalfOpen(ctx context.Context) {
	conn := s.dial(ctx)
	if conn == nil {
		return
	}
	defer conn.Close()
	io.WriteString(conn, "POST /v1/acquire HTTP/1.1\r\nHost: quotad\r\nContent-Le")
	io.Copy(io.Discard, conn)
}

// hangUp sends a whole request and does not wait for the answer, a hundred times a
// second.
func (s *loadClients) hangUp(ctx context.Context) {
	conn := s.dial(ctx)
	if conn == nil {
		return
	}
	const body = "credential=abrupt&operation=list"
	s.abrupt.Add(1)
	fmt.Fprintf(conn, "POST /v1/acquire HTTP/1.1\r\nHost: quotad\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	conn.Close()
	quota.Sleep(ctx, 10*time.Millisecond)
}

// A rate is how often clients were answered, and how long they waited.
type rate struct {
	perSecond float64
	p50, p99  time.Duration
}

func rateOf(all [][]time.Duration, took time.Duration) rate {
	merged := slices.Concat(all...)
	slices.Sort(merged)
	if len(merged) == 0 {
		return rate{}
	}
	at := func(percent int) time.Duration { return merged[len(merged)*percent/100].Round(time.Microsecond) }
	return rate{perSecond: float64(len(merged)) / took.Seconds(), p50: at(50), p99: at(99)}
}

func (r rate) String() string {
	return fmt.Sprintf("%.0f answers a second, half of them within %v, 99 %% within %v", r.perSecond, r.p50, r.p99)
}
