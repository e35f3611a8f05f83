package server_test

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"os"
	"runtime"
	"syscall"
	"testing"

	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// dialAs is Dial as another user: the kernel records the user of the thread that connects.
func dialAs(t *testing.T, h *servertest.Server, uid uint32) *servertest.Conn {
	t.Helper()
	os.Chmod(h.Socket, 0o666) // for users who are in no group of ours; Dial says if it is not
	runtime.LockOSThread()
	setThreadUser(t, uintptr(uid))
	w := h.Dial()
	setThreadUser(t, 0)
	runtime.UnlockOSThread() // not reached as another user: then the thread ends with its goroutine
	return w
}

func setThreadUser(t *testing.T, uid uintptr) {
	t.Helper()
	const unchanged = ^uintptr(0)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, unchanged, uid, unchanged); errno != 0 {
		t.Fatalf("cannot become uid %d: %v", uid, errno)
	}
}

// served reports whether a connection is answered.
func served(w *servertest.Conn) bool {
	io.WriteString(w, "GET /healthz HTTP/1.1\r\nHost: quotad\r\n\r\n")
	answer, err := http.ReadResponse(w.In, nil)
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
	}
	return err == nil && answer.StatusCode == http.StatusOK
}

// One user has 256 connections, and all together 1,024. Root has 16 more, and so has the daemon, whatever its user is.
func TestConnectionsAreBounded(t *testing.T) {
	nobody := account(t, "nobody")
	var h *servertest.Server
	var said bytes.Buffer
	start := func(self int) {
		h = servertest.Start(t, nil, server.FrontendConfig{Self: self, ErrorLog: log.New(&said, "", 0)})
	}
	crowd := func(uid uint32, n int) (first *servertest.Conn) {
		first = dialAs(t, h, uid)
		for range n - 1 { // half open: they never send a thing
			dialAs(t, h, uid)
		}
		return first
	}
	answers := func(uid uint32, n int) { // and no more
		t.Helper()
		for i := range n + 1 {
			if got := served(dialAs(t, h, uid)); got != (i < n) {
				t.Errorf("uid %d: connection %d is answered: %v", uid, i+1, got)
			}
		}
	}
	start(0)
	first := crowd(nobody, 256)
	answers(nobody, 0)
	if !served(dialAs(t, h, 60_001)) || !served(h.Dial()) {
		t.Error("another user, or root, is not answered")
	}
	first.Close()
	for tries := 0; !served(dialAs(t, h, nobody)); tries++ { // until the place is free
		if tries == 1000 {
			t.Fatal("no place is free again")
		}
	}
	h.Frontend.Shutdown(servertest.Canceled())
	if text := said.String(); text != "connections are refused: uid 65534 has 256, the most at once\n" {
		t.Errorf("the log says %q", text)
	}
	start(0)
	for uid := range uint32(4) {
		crowd(60_001+uid, 256)
	}
	answers(60_009, 0)
	answers(0, 16)
	h.Frontend.Shutdown(servertest.Canceled())
	start(os.Getpid())
	crowd(nobody, 256)
	answers(nobody, 16)
}

// The request of a connection that has not asked yet is answered while the server shuts down, or known to its
// sender not to have arrived: none is read and dropped.
func TestShutdownDropsNoRequest(t *testing.T) {
	for range 6 {
		h := servertest.Start(t, nil)
		wires := make([]*servertest.Conn, 16)
		for i := range wires {
			wires[i] = h.Dial()
		}
		if !served(h.Dial()) { // the others are accepted by then
			t.Fatal("not answered")
		}
		down := make(chan error, 1)
		go func() { down <- h.Frontend.Shutdown(t.Context()) }()
		for { // until nothing is accepted any more
			if _, err := os.Lstat(h.Socket); err != nil {
				break
			}
		}
		results := make(chan error, len(wires))
		for _, w := range wires {
			go func() {
				if _, err := io.WriteString(w, "GET /healthz HTTP/1.1\r\nHost: quotad\r\n\r\n"); err != nil {
					results <- nil // known not to be sent
					return
				}
				_, err := http.ReadResponse(w.In, nil)
				results <- err
			}()
		}
		for range wires {
			if err := <-results; err != nil {
				t.Errorf("a request that was sent: %v", err)
			}
		}
		if err := <-down; err != nil {
			t.Error(err)
		}
	}
}
