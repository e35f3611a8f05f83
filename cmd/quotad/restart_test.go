package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"quotad/quota/seedtest"
)

const restartable = `
[credentials.api]
limits.daily.units = 1_000_000
operations.list = 1
`

// No caller is lost while quotad is restarted again and again: whoever comes in
// between waits at the socket.
func TestRestartsLoseNobody(t *testing.T) {
	needRoot(t)
	t.Parallel()
	restarts := seedtest.Long(t, 3)
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
	if _, err := exec.LookPath("curl"); err == nil {
		callers.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				if text, err := curlOnce(path, "list").CombinedOutput(); err != nil || !strings.HasPrefix(string(text), `{"granted":true`) {
					t.Errorf("curl: %v: %s", err, text)
				}
			}
		})
	}
	for range restarts {
		daemon := startOn(t, dir, restartable, socket, "LISTEN_FDNAMES=api")
		awaitNotice(t, manager, "(?s)READY=1\n.*")
		for begun := answered.Load(); answered.Load() < begun+100 && !t.Failed(); {
			awaitNotice(t, manager, "WATCHDOG=1|STATUS=.*")
		}
		daemon.stop(t)
	}
	stop()
	last := startOn(t, dir, restartable, socket, "LISTEN_FDNAMES=api") // for those who still wait
	callers.Wait()
	t.Logf("%d calls were answered over %d restarts", answered.Load(), restarts)
	last.logs(t, "^serving$")
}

// curlOnce acquires as API.md has scripts do it.
func curlOnce(socket, operation string) *exec.Cmd {
	return exec.Command("curl", "-sS", "--max-time", "10", "--retry", "5", "--retry-connrefused", "--retry-max-time", "10",
		"--unix-socket", socket, "http://quotad/v1/acquire", "-d", "operation="+operation)
}

// A script that has curl repeat what a restart cost does not wait out a denial.
func TestCurlDoesNotWaitOutADenial(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	dir := shortDir(t)
	socket := filepath.Join(dir, "api.sock")
	startConfigured(t, dir, strings.Replace(restartable, "1_000_000", "1", 1), socket, "LISTEN_FDNAMES=api").logs(t, "^serving$")
	for _, want := range []string{`{"granted":true`, `"reason":"limit_exceeded"`} {
		cmd := curlOnce(socket, "list")
		text, _ := cmd.CombinedOutput()
		if !strings.Contains(string(text), want) || strings.Contains(string(text), "Will retry") {
			t.Errorf("curl printed %s, want %s", text, want)
		}
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
