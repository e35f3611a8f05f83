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
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const restartable = `
[credentials.api]
limits.daily.units = 1_000_000
operations.list = 1
`

// No caller is lost while quotad is restarted again and again: whoever comes in
// between waits at the socket.
func TestRestartsLoseNobody(t *testing.T) {
	restarts := 8
	if os.Getenv("QUOTAD_TEST_LOAD") == "full" {
		restarts = 50
	}
	dir := shortDir(t)
	manager, path := notifySocket(t, dir), filepath.Join(dir, "api.sock")
	socket := passedSocket(t, path)
	ctx, stop := context.WithCancel(t.Context())
	var answered atomic.Int64
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for ctx.Err() == nil {
				if err := callOnce(path); err != nil {
					t.Errorf("a caller: %v", err)
					return
				}
				answered.Add(1)
			}
		})
	}
	for range restarts {
		daemon := startOn(t, dir, restartable, socket, "LISTEN_FDNAMES=api")
		awaitNotice(t, manager, "(?s)READY=1\n.*")
		for begun := answered.Load(); answered.Load() < begun+100 && !t.Failed(); {
			awaitNotice(t, manager, "WATCHDOG=1|STATUS=.*")
		}
		if err := daemon.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code, err := daemon.end(); code != exitOK || err != nil {
			t.Fatalf("exit code %d: %v\n%s", code, err, daemon.text())
		}
	}
	stop()
	last := startOn(t, dir, restartable, socket, "LISTEN_FDNAMES=api") // for those who still wait
	callers.Wait()
	t.Logf("%d calls were answered over %d restarts", answered.Load(), restarts)
	if err := last.await(regexp.MustCompile("^serving$")); err != nil {
		t.Error(err)
	}
}

// Those who wait at the socket of a quotad whose configuration is not good are told
// so, and nobody is left there for whom systemd would start it again.
func TestBadConfigurationTurnsCallersAway(t *testing.T) {
	const callers = 8
	dir := shortDir(t)
	path := filepath.Join(dir, "api.sock")
	manager, socket := notifySocket(t, dir), passedSocket(t, path)
	answers := make(chan error, callers)
	for range callers {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() { answers <- ask(conn) }()
	}
	daemon := startOn(t, dir, "nonsense = true\n", socket, "LISTEN_FDNAMES=api")
	if code, err := daemon.end(); code != exitConfig || err != nil {
		t.Errorf("exit code %d: %v, want %d", code, err, exitConfig)
	}
	for range callers {
		select {
		case err := <-answers:
			if err == nil || !strings.HasPrefix(err.Error(), "503 ") || !strings.Contains(err.Error(), `"reason":"bad_configuration"`) {
				t.Errorf("a caller got %v, want 503 bad_configuration", err)
			}
		case <-time.After(hangTimeout):
			t.Fatal("a caller still waits")
		}
	}
	waiting := []unix.PollFd{{Fd: int32(socket.Fd()), Events: unix.POLLIN}}
	if n, err := unix.Poll(waiting, 0); n != 0 || err != nil {
		t.Errorf("a connection still waits at the socket: %v", err)
	}

	startOn(t, dir, restartable, socket, "LISTEN_FDNAMES=api") // repaired
	awaitNotice(t, manager, "(?s)READY=1\n.*")
	if err := callOnce(path); err != nil {
		t.Error(err)
	}
}

// callOnce acquires over a connection of its own, as curl does. A connection that
// quotad closes before anything was sent is no call yet.
func callOnce(path string) error {
	conn, err := net.Dial("unix", path)
	if errors.Is(err, syscall.EAGAIN) {
		return nil
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	return ask(conn)
}

// ask acquires over a connection.
func ask(conn net.Conn) error {
	const body = "credential=api&operation=list"
	if _, err := fmt.Fprintf(conn, "POST /v1/acquire HTTP/1.1\r\nHost: quotad\r\nConnection: close\r\n"+
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		return nil
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return err
}
