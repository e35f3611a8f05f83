package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// dialAs is dial as another user: the kernel records the user of the thread that
// connects.
func (h *house) dialAs(t *testing.T, uid uint32) *wire {
	t.Helper()
	runtime.LockOSThread()
	setThreadUser(t, uintptr(uid))
	w := h.dial()
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

// awaitOpen waits until the server has so many connections.
func (h *house) awaitOpen(t *testing.T, want int) {
	t.Helper()
	tick, patience := time.NewTicker(time.Millisecond), time.After(3*time.Minute)
	defer tick.Stop()
	for h.server.Connections().Open != want {
		select {
		case <-tick.C:
		case <-patience:
			t.Fatalf("%d connections are open, want %d", h.server.Connections().Open, want)
		}
	}
}

func TestConnectionsOfAUserAreBounded(t *testing.T) {
	var said lines
	h := open(t, func(c *api.Config) { c.ConnectionsPerUser, c.ErrorLog = 2, log.New(&said, "", 0) })
	first, second := h.dial(), h.dial()
	for _, w := range []*wire{first, second} {
		if got := w.call("GET", "/healthz", ""); got.status != http.StatusOK {
			t.Fatalf("within the bound: %d %s", got.status, got.body)
		}
	}
	third := h.dial()
	got := third.call("POST", "/v1/acquire", "credential=youtube&operation=videos.list", asForm)
	if got.status != http.StatusServiceUnavailable || got.text("reason") != "too_many_connections" || got.header.Get("Retry-After") == "" {
		t.Errorf("one too many: %d %s, want 503 too_many_connections", got.status, got.body)
	}
	if _, err := third.in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection too many stays open: %v", err)
	}
	if used := h.used("youtube"); used != 0 {
		t.Errorf("%d units were debited over a connection too many", used)
	}
	if got := second.call("GET", "/healthz", ""); got.status != http.StatusOK {
		t.Errorf("another's connection: %d, want 200", got.status)
	}
	if text := said.String(); !strings.Contains(text, fmt.Sprintf("connections are refused: uid %d has 2 connections", os.Getuid())) {
		t.Errorf("the log says %q", text)
	}

	first.conn.Close()
	h.awaitOpen(t, 1)
	if got := h.dial().call("GET", "/healthz", ""); got.status != http.StatusOK {
		t.Errorf("after one has gone: %d, want 200", got.status)
	}
	if refused := h.server.Connections().Refused; refused != 1 {
		t.Errorf("%d connections count as refused, want 1", refused)
	}
}

// Users who together take every connection there is do not lock out those who
// operate the daemon, its own user, and whoever reads its metrics.
func TestManyUsersLeaveRoomForOperators(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can connect as other users")
	}
	const most, own = 4, 60_000
	metrics, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, func(c *api.Config) { c.Connections, c.ConnectionsPerUser, c.RoomFor = most, 2, []int{own} })
	served := make(chan error, 1)
	go func() { served <- h.server.ServeOnly(metrics, "/healthz") }()
	t.Cleanup(func() {
		h.server.Shutdown(canceled())
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(h.socket, 0o666); err != nil {
		t.Fatal(err)
	}
	for uid := range uint32(most) {
		h.dialAs(t, 60_001+uid%3)
	}
	h.awaitOpen(t, most)
	if got := h.dialAs(t, 60_009).call("GET", "/healthz", ""); got.status != http.StatusServiceUnavailable {
		t.Errorf("one more user: %d, want 503", got.status)
	}
	for name, w := range map[string]*wire{"root": h.dial(), "the daemon's own user": h.dialAs(t, own), "metrics": dialTCP(t, metrics.Addr())} {
		if got := w.call("GET", "/healthz", ""); got.status != http.StatusOK {
			t.Errorf("%s: %d %s, want 200", name, got.status, got.body)
		}
	}
}

// A user's followers are bounded, and leave room for his other requests and for
// other users' followers.
func TestFollowersOfAUserAreBounded(t *testing.T) {
	const most = 16
	h := open(t, nil)
	path := "/v1/credentials/youtube/log?follow=true"
	following := make([]*wire, most)
	for i := range following {
		following[i] = h.dial()
		if got := following[i].begin("GET", path); got.StatusCode != http.StatusOK {
			t.Fatalf("follower %d: %s", i, got.Status)
		}
	}
	if got := h.dial().call("GET", path, ""); got.status != http.StatusServiceUnavailable || got.text("reason") != "too_many_connections" || got.header.Get("Retry-After") == "" {
		t.Errorf("one more: %d %s, want 503", got.status, got.body)
	}
	if got := h.dial().call("GET", "/v1/credentials/youtube/log", ""); got.status != http.StatusOK {
		t.Errorf("the log without following it: %d, want 200", got.status)
	}
	if os.Getuid() == 0 {
		if err := os.Chmod(h.socket, 0o666); err != nil {
			t.Fatal(err)
		}
		if got := h.dialAs(t, 60_001).begin("GET", path); got.StatusCode != http.StatusOK {
			t.Errorf("another user's follower: %s", got.Status)
		}
	}
	following[0].conn.Close()
	tick, patience := time.NewTicker(time.Millisecond), time.After(3*time.Minute)
	defer tick.Stop()
	for h.dial().begin("GET", path).StatusCode != http.StatusOK {
		select {
		case <-tick.C:
		case <-patience:
			t.Fatal("after one has gone there is no room for another")
		}
	}
}

// What net/http answers before any handler is a problem, too.
func TestAnswersBeforeAnyHandler(t *testing.T) {
	h := open(t, nil)
	for _, row := range []struct {
		name, request string
		status        int
	}{
		{"no request at all", "hello\r\n\r\n", 400},
		{"no host", "GET /healthz HTTP/1.1\r\n\r\n", 400},
		{"a header without a colon", "GET /healthz HTTP/1.1\r\nHost: quotad\r\nnonsense\r\n\r\n", 400},
		{"headers without end", "GET /healthz HTTP/1.1\r\nHost: quotad\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431},
		{"an encoding of its own", "POST /v1/acquire HTTP/1.1\r\nHost: quotad\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
		{"an expectation of its own", "POST /v1/acquire HTTP/1.1\r\nHost: quotad\r\nExpect: mercy\r\n\r\n", 417},
		{"another protocol", "GET /healthz HTTP/3.0\r\nHost: quotad\r\n\r\n", 505},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := h.dial()
			go io.WriteString(w.conn, row.request)
			answer, err := http.ReadResponse(w.in, nil)
			if err != nil {
				t.Fatal(err)
			}
			var p api.Problem
			if err := json.NewDecoder(answer.Body).Decode(&p); err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode != row.status || p.Status != row.status || p.Reason != quota.BadRequest || answer.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("got %s %+v, want a problem of status %d", answer.Status, p, row.status)
			}
			if _, err := w.in.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("the connection goes on: %v", err)
			}
		})
	}
}

func dialTCP(t *testing.T, addr net.Addr) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(3 * time.Minute))
	return &wire{t: t, conn: conn, in: bufio.NewReader(conn)}
}

func TestOneUserLeavesRoomForOthers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can connect as other users")
	}
	nobody := account(t, "nobody")
	h := open(t, func(c *api.Config) { c.ConnectionsPerUser = 2 })
	if err := os.Chmod(h.socket, 0o666); err != nil {
		t.Fatal(err)
	}
	for range 2 { // half open: they never send a thing
		h.dialAs(t, nobody)
	}
	h.awaitOpen(t, 2)
	if got := h.dialAs(t, nobody).call("GET", "/healthz", ""); got.status != http.StatusServiceUnavailable {
		t.Errorf("the flood's user: %d, want 503", got.status)
	}
	if got := h.dial().call("GET", "/healthz", ""); got.status != http.StatusOK {
		t.Errorf("another user: %d, want 200", got.status)
	}
}

// A flood of the server's own user does not keep the server from asking itself.
func TestAFloodDoesNotShutOutTheServerItself(t *testing.T) {
	const most = 2
	h := open(t, func(c *api.Config) { c.ConnectionsPerUser, c.Self = most, os.Getpid() })
	for range most {
		begun := h.other("GET /healthz HTTP/1.1\r\n")
		if err := begun.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			begun.Process.Kill()
			begun.Wait()
		})
	}
	h.awaitOpen(t, most)
	if got, err := h.other("GET /healthz HTTP/1.1\r\nHost: quotad\r\n\r\n").Output(); !strings.HasPrefix(string(got), "HTTP/1.1 503 ") {
		t.Errorf("another process of this user: %s %v, want 503", got, err)
	}
	own := h.dial()
	if got := own.call("GET", "/healthz", ""); got.status != http.StatusOK {
		t.Errorf("this process: %d, want 200", got.status)
	}
	own.conn.Close()
	h.awaitOpen(t, most)
	if refused := h.server.Connections().Refused; refused != 1 {
		t.Errorf("%d connections count as refused, want 1", refused)
	}
}

// other is another process, that connects, sends something and reads until the
// server hangs up.
func (h *house) other(sends string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", h.socket)
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0", callAs + "=" + sends}
	return cmd
}

// Connections beyond those that are answered 503 are closed.
func TestFloodIsCut(t *testing.T) {
	const most, overflow = 2, 64
	h := open(t, func(c *api.Config) { c.ConnectionsPerUser = most })
	for range most + overflow {
		h.dial()
	}
	h.awaitOpen(t, most+overflow)
	if _, err := h.dial().in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("beyond the bound: %v, want EOF", err)
	}
	h.awaitOpen(t, most+overflow)
}

// lines is what a log was told.
type lines struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestListenerForSomePathsOnly(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, nil)
	served := make(chan error, 1)
	go func() { served <- h.server.ServeOnly(listener, "/healthz", "/readyz") }()
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/v1/status": 404, "/v1": 404, "/version": 404} {
		answer, err := http.Get("http://" + listener.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, answer.StatusCode, want)
		}
	}
	if got := h.dial().call("GET", "/v1/status", ""); got.status != 200 {
		t.Errorf("the status on the socket: %d, want 200", got.status)
	}
	if err := h.server.Shutdown(canceled()); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("ServeOnly: %v", err)
	}
}
