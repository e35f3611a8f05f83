package server_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"quotad/quota/server/servertest"
	"testing"
	"time"
)

// Whatever arrives while the server shuts down is answered, and what does not
// arrive is known to its sender: no request is read and dropped.
func TestShutdownDropsNoRequest(t *testing.T) {
	for name, asked := range map[string]bool{"connections that have not asked yet": false, "connections that asked before": true} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				shutDownUnderRequests(t, asked)
			}
		})
	}
}

const healthz = "GET /healthz HTTP/1.1\r\nHost: quotad\r\n\r\n"

func shutDownUnderRequests(t *testing.T, asked bool) {
	t.Helper()
	const callers = 16
	h := servertest.Start(t, nil)
	wires := make([]*servertest.Conn, callers)
	for i := range wires {
		wires[i] = h.Dial()
		if asked {
			wires[i].Call("GET", "/healthz", "")
		}
	}
	awaitOpen(t, h, callers)
	down := make(chan error, 1)
	go func() { down <- h.Server.Shutdown(t.Context()) }()
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

// sendOnce sends a request; nil means that it was answered, or known not to have
// been sent.
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
