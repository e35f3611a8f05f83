package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A startScene is the place of a daemon that systemd starts.
type startScene struct {
	dir, state, path string
}

func (s *startScene) write(t *testing.T, text string) {
	t.Helper()
	write(t, s.dir, "config.toml", text)
}

func (s *startScene) ledger() string { return filepath.Join(s.state, journalDir, "api", "00000001") }

// listen has somebody else use a port.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// takePort has the configuration name a port that is taken.
func takePort(table string) func(t *testing.T, s *startScene) (mend func() error) {
	return func(t *testing.T, s *startScene) func() error {
		taken := listen(t)
		s.write(t, restartable+fmt.Sprintf("[%s]\nlisten = %q\n", table, taken.Addr()))
		return taken.Close
	}
}

// keepLedger moves the journal away, and has mend put it back.
func keepLedger(t *testing.T, s *startScene) (mend func() error) {
	kept := s.ledger() + ".kept"
	must(t, os.Rename(s.ledger(), kept))
	return func() error { return errors.Join(os.RemoveAll(s.ledger()), os.Rename(kept, s.ledger())) }
}

// failedStarts have what keeps quotad from starting, the code with which it exits, and what the log and systemd's status say.
var failedStarts = []struct {
	name  string
	spoil func(t *testing.T, s *startScene) (mend func() error)
	code  int
	says  string
}{
	{"the port of the proxy is taken", takePort("proxy"), exitError, "cannot serve the proxy: .*address already in use"},
	{"the port of the metrics is taken", takePort("metrics"), exitError, "cannot serve metrics: .*address already in use"},
	{"the ledger is damaged", func(t *testing.T, s *startScene) func() error {
		mend := keepLedger(t, s)
		text, err := os.ReadFile(s.ledger() + ".kept")
		must(t, err)
		text[20] = '#'
		must(t, os.WriteFile(s.ledger(), text, 0o600))
		return mend
	}, exitError, `ledger/api/00000001 is damaged`},
	{"the ledger is missing", keepLedger, exitError, `ledger/api is missing; .*--accept-new-ledger`},
	{"a directory stands in the place of the ledger", func(t *testing.T, s *startScene) func() error {
		mend := keepLedger(t, s)
		must(t, os.Mkdir(s.ledger(), 0o700))
		return mend
	}, exitError, `ledger/api/00000001: is a directory`},
	{"the file is not good", func(t *testing.T, s *startScene) func() error {
		s.write(t, "nonsense = true\n"+restartable)
		return func() error { s.write(t, restartable); return nil }
	}, exitConfig, "config.toml:1: nonsense: unknown key"},
	{"there is no file", func(t *testing.T, s *startScene) func() error {
		must(t, os.Remove(filepath.Join(s.dir, "config.toml")))
		return func() error { s.write(t, restartable); return nil }
	}, exitConfig, "cannot read configuration"},
	{"another quotad has the state directory", func(t *testing.T, s *startScene) func() error {
		_, unlock, err := lockStateDir(s.state)
		must(t, err)
		return unlock
	}, exitError, "another quotad uses it, pid [0-9]+: stop that one first"},
	{"the state is read-only", func(t *testing.T, s *startScene) func() error {
		if err := syscall.Mount(s.state, s.state, "", syscall.MS_BIND, ""); err != nil {
			t.Skipf("cannot mount: %v", err)
		}
		t.Cleanup(func() { syscall.Unmount(s.state, syscall.MNT_DETACH) })
		must(t, syscall.Mount("", s.state, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
		return func() error { return syscall.Mount("", s.state, "", syscall.MS_BIND|syscall.MS_REMOUNT, "") }
	}, exitError, "read-only file system"},
}

// A start that fails ends quotad, and says why in the log and in systemd's status. A caller waits meanwhile in
// systemd's socket, and is answered by the start that succeeds.
func TestFailedStart(t *testing.T) {
	needRoot(t)
	t.Parallel()
	for _, way := range failedStarts {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			s := &startScene{dir: dir, state: filepath.Join(dir, "state"), path: filepath.Join(dir, "api.sock")}
			manager, socket := notifySocket(t, dir), passedSocket(t, s.path)
			s.write(t, restartable)
			first := startAsService(t, dir, socket)
			awaitNotice(t, manager, "(?s)READY=1\n.*")
			must(t, callOnce(s.path))
			first.kill()
			mend := way.spoil(t, s)
			waits := make(chan error, 1)
			go func() { waits <- callOnce(s.path) }()
			failed := startAsService(t, dir, socket)
			awaitNotice(t, manager, "STATUS=.*"+way.says+".*")
			if code, err := failed.end(); code != way.code || err != nil || !regexp.MustCompile(way.says).MatchString(failed.text()) {
				t.Errorf("exit code %d, want %d and %q: %v\n%s", code, way.code, way.says, err, failed.text())
			}
			must(t, mend())
			mended := startAsService(t, dir, socket)
			if err := <-waits; err != nil {
				t.Errorf("a caller is lost: %v", err)
			}
			mended.stop(t)
		})
	}
}

// startAsService is startOn with the file that is there.
func startAsService(t *testing.T, dir string, socket *os.File) *child {
	t.Helper()
	return startFile(t, dir, filepath.Join(dir, "config.toml"), socket, "LISTEN_FDNAMES=api")
}

// What mends itself or can wait is no reason not to start: the status says what it is.
func TestStartsWithATrouble(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ text, kind string }{
		"Redis is away": {"[ledger]\nbackend = \"redis\"\nredis.addrs = [\"unix:///nowhere/redis.sock\"]\n" + restartable, "ledger"},
		"key_command fails": {restartable + "[proxy]\nlisten = \"127.0.0.1:0\"\n[credentials.api.proxy]\nupstream = \"http://127.0.0.1:1\"\n" +
			"key_command = [\"false\"]\nroutes = { \"GET /\" = \"list\" }\n", "key"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := shortDir(t)
			manager, path := notifySocket(t, dir), filepath.Join(dir, "api.sock")
			startConfigured(t, dir, row.text, path, "LISTEN_FDNAMES=api")
			awaitNotice(t, manager, "(?s)READY=1\n.*")
			status := exec.Command("quotactl", "--socket", path, "status", "-o", "json")
			if text, err := status.Output(); err != nil || !strings.Contains(string(text), `"kind": "`+row.kind+`"`) {
				t.Errorf("want a trouble %q: %v\n%s", row.kind, err, text)
			}
		})
	}
}

// By hand it is the same.
func TestStartWithoutASocket(t *testing.T) {
	for name, text := range map[string]string{
		"nowhere to put one":     "socket = \"/nowhere/at/all.sock\"\n" + restartable,
		"a state that is a file": "state_dir = \"config.toml\"\n" + restartable,
	} {
		t.Run(name, func(t *testing.T) {
			dir := shortDir(t)
			writeConfig(t, dir, text)
			cmd := exec.Command("quotad")
			cmd.Dir = dir
			output, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != exitError || !strings.HasPrefix(string(output), "quotad: error: cannot ") {
				t.Errorf("exit code %d: %s", code, output)
			}
		})
	}
}
