package server_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// A readCounter counts how often its connections are read.
type readCounter struct {
	net.Listener
	reads *atomic.Int64
}

type readCounted struct {
	*net.UnixConn
	reads *atomic.Int64
}

func (l readCounter) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return readCounted{conn.(*net.UnixConn), l.reads}, nil
}

func (c readCounted) Read(p []byte) (int, error) {
	c.reads.Add(1)
	return c.UnixConn.Read(p)
}

// To watch the caller of a request costs more than most answers.
func TestNobodyIsWatchedWhoIsAnsweredAtOnce(t *testing.T) {
	h := servertest.Start(t, nil) // for its service
	listener, err := server.Listen(filepath.Join(servertest.ShortDir(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	var reads atomic.Int64
	yield := server.Route{Method: "GET", Path: "/yield", Access: server.Read, Handle: server.Handle(func(context.Context, *server.Session, server.None) (string, error) {
		for range 100 { // net/http's other goroutine may run
			runtime.Gosched()
		}
		return "", nil
	})}
	servertest.Serve(t, server.Config{Service: h.Service, Routes: []server.Route{yield}}, readCounter{listener, &reads})
	dial, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	const calls = 200
	conn := servertest.NewConn(t, dial)
	for range calls {
		if r := conn.Call("GET", "/yield", ""); r.Status != http.StatusOK {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
	}
	if n := reads.Load(); n > calls+calls/2 { // some are over before that goroutine runs
		t.Errorf("the connection was read %d times for %d requests", n, calls)
	}
}

// A held route answers when it is let, and records whose caller has gone.
type held struct {
	entered, release chan struct{}
	gone             chan string
}

func (h held) route() server.Route {
	type in struct {
		Name string `json:"name"`
	}
	return server.Route{Method: "GET", Path: "/hold", Access: server.Read, Handle: server.Handle(func(ctx context.Context, _ *server.Session, in in) (string, error) {
		h.entered <- struct{}{}
		select {
		case <-h.release:
			return "released", nil
		case <-ctx.Done():
			h.gone <- in.Name
			return "", ctx.Err()
		}
	})}
}

func TestCallersOfSlowRequestsAreWatched(t *testing.T) {
	held := held{make(chan struct{}), make(chan struct{}), make(chan string)}
	h := servertest.Start(t, func(c *server.Config) { c.Routes = []server.Route{held.route()} })
	dial := func() net.Conn {
		conn, err := net.Dial("unix", h.Socket)
		if err != nil {
			t.Fatal(err)
		}
		servertest.NewConn(t, conn) // closes it, and bounds how long it hangs
		return conn
	}
	ask := func(conn net.Conn, name string) {
		t.Helper()
		if _, err := conn.Write([]byte("GET /hold?name=" + name + " HTTP/1.1\r\nHost: quotad\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		<-held.entered
	}
	stays, leaves := dial(), dial()
	answers := bufio.NewReader(stays)
	ask(stays, "stays")
	for range 2 { // what begins later is watched later
		ask(leaves, "leaves")
		leaves.Close()
		if who := <-held.gone; who != "leaves" {
			t.Fatalf("%s has gone", who)
		}
		leaves = dial()
	}
	if _, err := stays.Write([]byte("GET /healthz HTTP/1.1\r\nHost: quotad\r\n\r\n")); err != nil { // before it has its answer
		t.Fatal(err)
	}
	held.release <- struct{}{}
	for range 2 {
		if r, err := http.ReadResponse(answers, nil); err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("who stayed got %v: %v", r, err)
		} else if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Fatal(err)
		}
	}
	ask(stays, "stayed") // a request after one that was watched
	stays.Close()
	if who := <-held.gone; who != "stayed" {
		t.Errorf("%s has gone", who)
	}
	ask(leaves, "closes")
	if err := leaves.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if who := <-held.gone; who != "closes" {
		t.Errorf("%s has gone", who)
	}
}

// A watchedConn reports when its watch begins and ends.
type watchedConn struct {
	*net.UnixConn
	begun, ended chan struct{}
}

type watchedRaw struct {
	syscall.RawConn
	watchedConn
}

func (c watchedConn) SyscallConn() (syscall.RawConn, error) {
	raw, err := c.UnixConn.SyscallConn()
	return watchedRaw{raw, c}, err
}

func (r watchedRaw) Read(f func(uintptr) bool) error {
	close(r.begun)
	defer close(r.ended)
	return r.RawConn.Read(f)
}

type watchedListener struct {
	net.Listener
	watchedConn
}

func (l watchedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.UnixConn = conn.(*net.UnixConn)
	}
	return l.watchedConn, err
}

func (l watchedListener) Close() error   { return l.Listener.Close() }
func (l watchedListener) Addr() net.Addr { return l.Listener.Addr() }

// net/http may end its own read of a connection by a deadline that has passed. Then no caller has gone.
func TestADeadlineIsNoCallerWhoHasGone(t *testing.T) {
	h := servertest.Start(t, nil) // for its service
	listener, err := server.Listen(filepath.Join(servertest.ShortDir(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	watched := watchedConn{begun: make(chan struct{}), ended: make(chan struct{})}
	slow := server.Route{Method: "GET", Path: "/slow", Access: server.Read, Handle: func(w http.ResponseWriter, r *http.Request, _ *server.Session) error {
		<-watched.begun
		control := http.NewResponseController(w)
		control.SetReadDeadline(time.Unix(1, 0))
		<-watched.ended
		control.SetReadDeadline(time.Time{})
		return r.Context().Err()
	}}
	next := server.Route{Method: "GET", Path: "/next", Access: server.Read, Handle: func(_ http.ResponseWriter, r *http.Request, _ *server.Session) error {
		return r.Context().Err()
	}}
	servertest.Serve(t, server.Config{Service: h.Service, Routes: []server.Route{slow, next}}, watchedListener{listener, watched})
	dial, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn := servertest.NewConn(t, dial)
	conn.Call("GET", "/slow", "")
	if r := conn.Call("GET", "/next", ""); r.Status != http.StatusOK {
		t.Errorf("the next request on the connection is answered %d %s", r.Status, r.Body)
	}
}
