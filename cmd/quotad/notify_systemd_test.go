package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Systemd is told that quotad is alive, and of each reload what became of it.
func TestTellsSystemd(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	manager := notifySocket(t, dir)
	daemon := startUnderSystemd(t, dir, filepath.Join(dir, "api.sock"), "LISTEN_FDNAMES=api")
	awaitNotice(t, manager, `READY=1\nSTATUS=next fetch .*`)
	awaitNotice(t, manager, `WATCHDOG=1`)

	reload := func(text string) {
		t.Helper()
		writeConfig(t, dir, text)
		must(t, daemon.cmd.Process.Signal(syscall.SIGHUP))
		awaitNotice(t, manager, `RELOADING=1\nMONOTONIC_USEC=[0-9]+\n`)
		awaitNotice(t, manager, `READY=1`)
	}
	reload(strings.Replace(onSystemd, "100", "50", 1))
	reload(onSystemd + "evry = 1\n")
	awaitNotice(t, manager, `STATUS=.*/config.toml was not loaded, and the former configuration runs: .*/config.toml:[0-9]+: jobs.fetch.evry: unknown key.*`)
	awaitNotice(t, manager, `WATCHDOG=1`)
	reload(onSystemd)
	awaitNotice(t, manager, `STATUS=next fetch .*`)

	must(t, daemon.cmd.Process.Signal(syscall.SIGTERM))
	// Half a minute to drain, ten seconds of grace, and some seconds to answer.
	awaitNotice(t, manager, `STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=55000000`)
	if code, err := daemon.end(); code != exitOK || err != nil {
		t.Errorf("exit code %d: %v", code, err)
	}
}

// Without its ledger a daemon is ready and alive, and says what is wrong.
func TestTellsSystemdOfAnOutage(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	manager := notifySocket(t, dir)
	config := strings.Replace(onSystemd, "run_at_start = true", "", 1) + "[ledger]\nbackend = \"redis\"\nredis.addrs = [\"unix://" + filepath.Join(dir, "redis") + "\"]\n"
	daemon := startConfigured(t, dir, config, filepath.Join(dir, "api.sock"), "LISTEN_FDNAMES=api")
	awaitNotice(t, manager, `READY=1\nSTATUS=Redis cannot be reached: every call is refused: .*`)
	for range beats + 1 { // for longer than systemd would wait
		awaitNotice(t, manager, `WATCHDOG=1`)
	}
	daemon.kill()
}

// A service manager that does not listen, such as that of a shell's own parent, is
// no reason to end.
func TestGoesOnWithoutSystemd(t *testing.T) {
	dir := shortDir(t)
	daemon := startUnderSystemd(t, dir, filepath.Join(dir, "api.sock"), "LISTEN_FDNAMES=api")
	daemon.logs(t, "^systemd does not receive the state of quotad$", "error=.*notify: connect: no such file or directory")
	daemon.stop(t)
}

// Jobs have the daemon's uid. Nothing that they do at the socket keeps the daemon
// from proving that it is alive.
func TestTellsSystemdUnderFullConnections(t *testing.T) {
	t.Parallel()
	const heard = 256 + 16 + 64 // of one user; 16 are root's
	dir := shortDir(t)
	manager, socket := notifySocket(t, dir), filepath.Join(dir, "api.sock")
	daemon := startConfigured(t, dir, strings.Replace(onSystemd, "run_at_start = true", "", 1),
		socket, "LISTEN_FDNAMES=api")
	awaitNotice(t, manager, `READY=1\nSTATUS=.*`)
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("unix", socket)
		must(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	for range heard - 16*min(os.Getuid(), 1) {
		dial()
	}
	if n, err := dial().Read(make([]byte, 1)); err == nil {
		t.Errorf("one beyond those that are heard is sent %d bytes, want that it is cut", n)
	}
	for range 2 * beats {
		awaitNotice(t, manager, `WATCHDOG=1`)
	}
	if text := daemon.whole(); !strings.Contains(text, "connections are refused: uid") {
		t.Errorf("the log:\n%s", text)
	}
}
