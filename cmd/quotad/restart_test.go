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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// No caller is lost while quotad is restarted again and again: those that come in between wait at the socket.
func TestRestartsLoseNobody(t *testing.T) {
	needRoot(t)
	t.Parallel()
	dir := shortDir(t)
	manager, socket, path := notifySocket(t, dir), passedSocket(t, dir), serviceClient(dir).Socket
	write(t, dir, "config.toml", oneCredential)
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
				if text, err := curlOnce(path).CombinedOutput(); err != nil || !strings.HasPrefix(string(text), `{"granted":true`) {
					t.Errorf("curl: %v: %s", err, text)
				}
			}
		})
	}
	for range 3 {
		daemon := startAsService(t, dir, socket)
		awaitNotice(t, manager, "(?s)READY=1\n.*")
		for begun := answered.Load(); answered.Load() < begun+100 && !t.Failed(); {
			awaitNotice(t, manager, "WATCHDOG=1|STATUS=.*")
		}
		daemon.stop(t)
	}
	stop()
	last := startAsService(t, dir, socket) // for those that still wait
	callers.Wait()
	last.logs(t, "^serving$")
}

// curlOnce acquires as the API's page has scripts do it.
func curlOnce(socket string) *exec.Cmd {
	return exec.Command("curl", "-sS", "--max-time", "10", "--retry", "5", "--retry-connrefused", "--retry-max-time", "10",
		"--unix-socket", socket, "http://quotad/v1/acquire", "-d", "operation=list")
}

// callOnce acquires over a connection of its own, as curl does. A connection that quotad closes before anything was sent
// is no call yet.
func callOnce(path string) error {
	conn, err := net.Dial("unix", path)
	if errors.Is(err, syscall.EAGAIN) {
		return nil
	}
	if err != nil {
		return err
	}
	defer conn.Close()
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
