package server_test

import (
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
	"syscall"
	"testing"
	"time"

	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// dialAs is dial as another user: the kernel records the user of the thread that connects.
func dialAs(t *testing.T, h *servertest.Server, uid uint32) *servertest.Conn {
	t.Helper()
	everybodyMayConnect(t, h)
	runtime.LockOSThread()
	setThreadUser(t, uintptr(uid))
	w := h.Dial()
	setThreadUser(t, 0)
	runtime.UnlockOSThread() // not reached as another user: then the thread ends with its goroutine
	return w
}

// dialPlain dials as a user who is no operator, and returns their uid.
func dialPlain(t *testing.T, h *servertest.Server) (*servertest.Conn, int) {
	t.Helper()
	if os.Getuid() != 0 {
		return h.Dial(), os.Getuid()
	}
	nobody := account(t, "nobody")
	return dialAs(t, h, nobody), int(nobody)
}

func setThreadUser(t *testing.T, uid uintptr) {
	t.Helper()
	const unchanged = ^uintptr(0)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, unchanged, uid, unchanged); errno != 0 {
		t.Fatalf("cannot become uid %d: %v", uid, errno)
	}
}

// awaitOpen waits until the server has so many connections.
func awaitOpen(t *testing.T, h *servertest.Server, want int) {
	t.Helper()
	tick, patience := time.NewTicker(time.Millisecond), time.After(3*time.Minute)
	defer tick.Stop()
	for h.Frontend.Connections().Open != want {
		select {
		case <-tick.C:
		case <-patience:
			t.Fatalf("%d connections are open, want %d", h.Frontend.Connections().Open, want)
		}
	}
}

func TestConnectionsOfAUserAreBounded(t *testing.T) {
	var said servertest.Text
	h := servertest.Start(t, nil, server.FrontendConfig{ConnectionsPerUser: 2, ErrorLog: log.New(&said, "", 0)})
	first, uid := dialPlain(t, h)
	second, _ := dialPlain(t, h)
	for _, w := range []*servertest.Conn{first, second} {
		if got := w.Call("GET", "/healthz", ""); got.Status != http.StatusOK {
			t.Fatalf("within the bound: %d %s", got.Status, got.Body)
		}
	}
	third, _ := dialPlain(t, h)
	got := third.Call("POST", "/v1/acquire", "credential=youtube&operation=videos.list", servertest.Form)
	if got.Status != http.StatusServiceUnavailable || got.Text("reason") != "too_many_connections" || got.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %d %s, want 503 too_many_connections", got.Status, got.Body)
	}
	if _, err := third.In.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection too many stays open: %v", err)
	}
	if used := h.Used("youtube"); used != 0 {
		t.Errorf("%d units were debited over a connection too many", used)
	}
	if got := second.Call("GET", "/healthz", ""); got.Status != http.StatusOK {
		t.Errorf("another's connection: %d, want 200", got.Status)
	}
	if text := said.String(); !strings.Contains(text, fmt.Sprintf("connections are refused: uid %d has 2 connections", uid)) {
		t.Errorf("the log says %q", text)
	}

	first.Conn.Close()
	awaitOpen(t, h, 1)
	fourth, _ := dialPlain(t, h)
	if got := fourth.Call("GET", "/healthz", ""); got.Status != http.StatusOK {
		t.Errorf("after one has gone: %d, want 200", got.Status)
	}
	if refused := h.Frontend.Connections().Refused; refused != 1 {
		t.Errorf("%d connections count as refused, want 1", refused)
	}
}

// Users who together take every connection there is do not lock out those who operate the daemon, and who read its
// metrics.
func TestManyUsersLeaveRoomForOperators(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can connect as other users")
	}
	const most = 4
	metrics := servertest.TCP(t)
	h := servertest.Start(t, nil, server.FrontendConfig{Connections: most, ConnectionsPerUser: 2})
	only(t, h, metrics, "/healthz")
	for uid := range uint32(most) {
		dialAs(t, h, 60_001+uid%3)
	}
	awaitOpen(t, h, most)
	if got := dialAs(t, h, 60_009).Call("GET", "/healthz", ""); got.Status != http.StatusServiceUnavailable {
		t.Errorf("one more user: %d, want 503", got.Status)
	}
	for name, w := range map[string]*servertest.Conn{"root": h.Dial(), "metrics": dialTCP(t, metrics.Addr())} {
		if got := w.Call("GET", "/healthz", ""); got.Status != http.StatusOK {
			t.Errorf("%s: %d %s, want 200", name, got.Status, got.Body)
		}
	}
	for range 15 { // the rest of the places of their own
		h.Dial()
	}
	awaitOpen(t, h, most+16)
	if got := h.Dial().Call("GET", "/healthz", ""); got.Status != http.StatusServiceUnavailable {
		t.Errorf("root's own flood: %d, want 503", got.Status)
	}
}

// What is no request gets net/http's own answer, and the connection ends.
func TestAnswersBeforeAnyHandler(t *testing.T) {
	h := servertest.Start(t, nil)
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
			w := h.Dial()
			go io.WriteString(w.Conn, row.request)
			answer, err := http.ReadResponse(w.In, nil)
			if err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode != row.status {
				t.Errorf("got %s, want %d", answer.Status, row.status)
			}
			io.Copy(io.Discard, answer.Body)
			if _, err := w.In.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("the connection goes on: %v", err)
			}
		})
	}
}

func dialTCP(t *testing.T, addr net.Addr) *servertest.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	return servertest.NewConn(t, conn)
}

func TestOneUserLeavesRoomForOthers(t *testing.T) {
	nobody := account(t, "nobody")
	h := servertest.Start(t, nil, server.FrontendConfig{ConnectionsPerUser: 2})
	for range 2 { // half open: they never send a thing
		dialAs(t, h, nobody)
	}
	awaitOpen(t, h, 2)
	if got := dialAs(t, h, nobody).Call("GET", "/healthz", ""); got.Status != http.StatusServiceUnavailable {
		t.Errorf("the flood's user: %d, want 503", got.Status)
	}
	if got := h.Dial().Call("GET", "/healthz", ""); got.Status != http.StatusOK {
		t.Errorf("another user: %d, want 200", got.Status)
	}
}

// A flood of the server's own user does not keep the server from asking itself.
func TestAFloodDoesNotShutOutTheServerItself(t *testing.T) {
	const most = 2
	h := servertest.Start(t, nil, server.FrontendConfig{ConnectionsPerUser: most, Self: os.Getpid()})
	everybodyMayConnect(t, h)
	for range most {
		begun := otherProcess(t, h, "GET /healthz HTTP/1.1\r\n")
		if err := begun.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			begun.Process.Kill()
			begun.Wait()
		})
	}
	awaitOpen(t, h, most)
	if got, err := otherProcess(t, h, "GET /healthz HTTP/1.1\r\nHost: quotad\r\n\r\n").Output(); !strings.HasPrefix(string(got), "HTTP/1.1 503 ") {
		t.Errorf("another process of this user: %s %v, want 503", got, err)
	}
	own := h.Dial()
	if got := own.Call("GET", "/healthz", ""); got.Status != http.StatusOK {
		t.Errorf("this process: %d, want 200", got.Status)
	}
	own.Conn.Close()
	awaitOpen(t, h, most)
	if refused := h.Frontend.Connections().Refused; refused != 1 {
		t.Errorf("%d connections count as refused, want 1", refused)
	}
}

// otherProcess is another process, that connects, sends something and reads until the
// server hangs up; the user is no operator.
func otherProcess(t *testing.T, h *servertest.Server, sends string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", h.Socket)
	cmd.Env, cmd.Dir = []string{"GORACE=atexit_sleep_ms=0", callAs + "=" + sends}, "/"
	if os.Getuid() == 0 {
		nobody := account(t, "nobody")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd
}

// Connections beyond those that are answered 503 are closed.
func TestFloodIsCut(t *testing.T) {
	const most, overflow = 2, 64
	h := servertest.Start(t, nil, server.FrontendConfig{ConnectionsPerUser: most})
	for range most + overflow {
		dialPlain(t, h)
	}
	awaitOpen(t, h, most+overflow)
	beyond, _ := dialPlain(t, h)
	if _, err := beyond.In.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("beyond the bound: %v, want EOF", err)
	}
	awaitOpen(t, h, most+overflow)
}

// only serves some paths of a server on another listener.
func only(t *testing.T, h *servertest.Server, l net.Listener, paths ...string) {
	t.Helper()
	frontend, served := server.NewFrontend(server.FrontendConfig{Handler: h.Server, Only: paths}), make(chan error, 1)
	go func() { served <- frontend.Serve(l) }()
	t.Cleanup(func() {
		frontend.Shutdown(servertest.Canceled())
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestListenerForSomePathsOnly(t *testing.T) {
	listener := servertest.TCP(t)
	h := servertest.Start(t, nil)
	only(t, h, listener, "/healthz", "/readyz")
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
	if got := h.Dial().Call("GET", "/v1/status", ""); got.Status != 200 {
		t.Errorf("the status on the socket: %d, want 200", got.Status)
	}
}
