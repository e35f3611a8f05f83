package server_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// The request of a connection that has not asked yet is answered while the server shuts down, or known to its
// sender not to have arrived: none is read and dropped.
func TestShutdownDropsNoRequest(t *testing.T) {
	for range 20 {
		shutDownUnderRequests(t)
	}
}

const healthz = "GET /healthz HTTP/1.1\r\nHost: quotad\r\n\r\n"

func shutDownUnderRequests(t *testing.T) {
	t.Helper()
	const callers = 16
	h := servertest.Start(t, nil)
	wires := make([]*servertest.Conn, callers)
	for i := range wires {
		wires[i] = h.Dial()
	}
	awaitOpen(t, h, callers)
	down := make(chan error, 1)
	go func() { down <- h.Frontend.Shutdown(t.Context()) }()
	for { // until nothing is accepted any more
		if _, err := os.Lstat(h.Socket); err != nil {
			break
		}
	}
	results := make(chan error, callers)
	for _, w := range wires {
		go func() { results <- sendOnce(w.Conn, w.In) }()
	}
	for range callers {
		if err := <-results; err != nil {
			t.Errorf("a request that was sent: %v", err)
		}
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// sendOnce sends a request; nil means that it was answered, or known not to have been sent.
func sendOnce(conn net.Conn, in *bufio.Reader) error {
	conn.SetDeadline(time.Now().Add(3 * time.Minute))
	if _, err := io.WriteString(conn, healthz); err != nil {
		return nil
	}
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// A lateListener has accepted a connection when it is closed, and hands it over only
// then: as late as it may be, unless the server shuts down without it.
type lateListener struct {
	net.Listener
	accepted, closed chan struct{}
	down             chan struct{} // closed when the server has shut down
}

func (l *lateListener) Close() error {
	close(l.closed)
	return l.Listener.Close()
}

func (l *lateListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	close(l.accepted)
	<-l.closed
	select {
	case <-l.down:
	case <-time.After(50 * time.Millisecond):
	}
	return conn, nil
}

// A connection that is being accepted when the server shuts down is answered.
func TestShutdownAwaitsWhatIsBeingAccepted(t *testing.T) {
	socket := filepath.Join(servertest.ShortDir(t), "quotad.sock")
	inner, err := server.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	l := &lateListener{Listener: inner, accepted: make(chan struct{}), closed: make(chan struct{}), down: make(chan struct{})}
	answered := make(chan struct{}, 1)
	_, frontend := servertest.Serve(t, server.Config{Routes: []server.Route{{
		Method: "GET", Path: "/v1/asked", Access: server.Read, Does: "tells the test",
		Handle: func(http.ResponseWriter, *http.Request, *server.Session) error { answered <- struct{}{}; return nil },
	}}}, l)
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /v1/asked HTTP/1.1\r\nHost: quotad\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-l.accepted
	if err := frontend.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	close(l.down)
	select {
	case <-answered:
	default:
		t.Error("the server has shut down before it answered")
	}
}
