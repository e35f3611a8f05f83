package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"quotad/quota/api"
)

// A failedStart is a way in which quotad cannot serve.
type failedStart struct {
	name  string
	spoil func(t *testing.T, s *startScene) // the state of a quotad that is not there
	// What callers are told.
	reason, detail, hint string
	// mend ends it. How is what has quotad try again.
	mend func(t *testing.T, s *startScene)
	how  string
}

// The ways to have quotad try again.
const (
	byItself = ""
	byHUP    = "HUP"
	byReload = "reload"
)

// A startScene is the place of a daemon that systemd starts.
type startScene struct {
	dir, state, path string
	config           string // the text of a good file
	taken            net.Listener
}

func (s *startScene) write(t *testing.T, name, text string) {
	t.Helper()
	write(t, s.dir, name, text)
}

func (s *startScene) ledger() string { return filepath.Join(s.state, journalDir, "api", "00000001") }

func (s *startScene) do(t *testing.T, steps ...error) {
	t.Helper()
	must(t, errors.Join(steps...))
}

// restore puts a copy of the ledger back.
func restore(t *testing.T, s *startScene) {
	t.Helper()
	s.do(t, os.RemoveAll(s.ledger()), os.Rename(s.ledger()+".kept", s.ledger()))
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

func keep(t *testing.T, s *startScene) {
	t.Helper()
	s.do(t, copyFile(s.ledger(), s.ledger()+".kept"))
}

var failedStarts = []failedStart{
	{
		name: "the port of the proxy is taken", reason: "not_serving", detail: "cannot serve the proxy: .*address already in use", hint: "stop what listens there",
		spoil: func(t *testing.T, s *startScene) {
			s.take(t)
			s.write(t, "config.toml", s.config+fmt.Sprintf("[proxy]\nlisten = %q\n", s.taken.Addr()))
		},
		mend: func(t *testing.T, s *startScene) { s.do(t, s.taken.Close()) },
	},
	{
		name: "the port of the metrics is taken", reason: "not_serving", detail: "cannot serve metrics: .*address already in use", hint: "stop what listens there",
		spoil: func(t *testing.T, s *startScene) {
			s.take(t)
			s.write(t, "config.toml", s.config+fmt.Sprintf("[metrics]\nlisten = %q\n", s.taken.Addr()))
		},
		mend: func(t *testing.T, s *startScene) { s.do(t, s.taken.Close()) }, how: byReload,
	},
	{
		name: "the ledger is damaged", reason: "not_serving", detail: `ledger/api/00000001 is damaged`, hint: "tries again by itself",
		spoil: func(t *testing.T, s *startScene) {
			keep(t, s)
			file, err := os.OpenFile(s.ledger(), os.O_WRONLY, 0)
			s.do(t, err)
			_, err = file.WriteAt([]byte("#"), 20)
			s.do(t, err, file.Close())
		},
		mend: restore, how: byHUP,
	},
	{
		name: "the ledger is missing", reason: "not_serving", detail: `ledger/api is missing; .*--accept-new-ledger`, hint: "tries again by itself",
		spoil: func(t *testing.T, s *startScene) {
			keep(t, s)
			s.do(t, os.Remove(s.ledger()))
		},
		mend: restore,
	},
	{
		name: "a directory stands in the place of the ledger", reason: "not_serving", detail: `ledger/api/00000001: is a directory`, hint: "tries again by itself",
		spoil: func(t *testing.T, s *startScene) {
			keep(t, s)
			s.do(t, os.Remove(s.ledger()), os.Mkdir(s.ledger(), 0o700))
		},
		mend: restore, how: byHUP,
	},
	{
		name: "the file is not good", reason: "bad_configuration", detail: "config.toml:[0-9]+: nonsense: unknown key", hint: "quotad --check",
		spoil: func(t *testing.T, s *startScene) { s.write(t, "config.toml", "nonsense = true\n"+s.config) },
		mend:  func(t *testing.T, s *startScene) { s.write(t, "config.toml", s.config) }, how: byReload,
	},
	{
		name: "there is no file", reason: "bad_configuration", detail: "cannot read configuration", hint: "quotad --check",
		spoil: func(t *testing.T, s *startScene) { s.do(t, os.Remove(filepath.Join(s.dir, "config.toml"))) },
		mend:  func(t *testing.T, s *startScene) { s.write(t, "config.toml", s.config) },
	},
	{
		name: "another quotad has the state directory", reason: "not_serving", detail: "another quotad uses it, pid [0-9]+: stop that one first", hint: "tries again by itself",
		spoil: func(t *testing.T, s *startScene) {
			s.write(t, "other.toml", fmt.Sprintf("state_dir = %q\n", s.state)+s.config)
			other := exec.Command("quotad", "--config", "other.toml")
			other.Dir = s.dir
			daemon, err := startChild(other)
			s.do(t, err)
			t.Cleanup(daemon.kill)
			s.do(t, daemon.await(regexp.MustCompile("^serving$")))
			s.taken = killOnClose{nil, daemon}
		},
		mend: func(t *testing.T, s *startScene) { s.taken.Close() }, how: byHUP,
	},
	{
		name: "the state is read-only", reason: "not_serving", detail: "read-only file system", hint: "mount the file system for writing",
		spoil: func(t *testing.T, s *startScene) {
			if os.Getuid() != 0 {
				t.Skip("only root can mount")
			}
			if err := syscall.Mount(s.state, s.state, "", syscall.MS_BIND, ""); err != nil {
				t.Skipf("cannot mount: %v", err)
			}
			t.Cleanup(func() { syscall.Unmount(s.state, syscall.MNT_DETACH) })
			s.do(t, syscall.Mount("", s.state, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
		},
		mend: func(t *testing.T, s *startScene) {
			s.do(t, syscall.Mount("", s.state, "", syscall.MS_BIND|syscall.MS_REMOUNT, ""))
		}, how: byReload,
	},
}

// killOnClose is another daemon, in the place of what holds a port.
type killOnClose struct {
	net.Listener
	daemon *child
}

func (k killOnClose) Close() error {
	k.daemon.kill()
	return nil
}

// take has somebody else listen.
func (s *startScene) take(t *testing.T) {
	t.Helper()
	var err error
	s.taken, err = net.Listen("tcp", "127.0.0.1:0")
	s.do(t, err)
	t.Cleanup(func() { s.taken.Close() })
}

// Whatever keeps quotad from serving, the process stays: each caller learns why, and
// when the cause has gone quotad serves. No caller is left without an answer.
func TestFailedStart(t *testing.T) {
	needRoot(t)
	t.Parallel()
	for _, way := range failedStarts {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			playFailedStart(t, way)
		})
	}
}

func playFailedStart(t *testing.T, way failedStart) {
	s := &startScene{dir: shortDir(t), config: restartable}
	s.state, s.path = filepath.Join(s.dir, "state"), filepath.Join(s.dir, "api.sock")
	manager, socket := notifySocket(t, s.dir), passedSocket(t, s.path)
	first := startOn(t, s.dir, s.config, socket, "LISTEN_FDNAMES=api")
	awaitNotice(t, manager, "(?s)READY=1\n.*")
	must(t, callOnce(s.path))
	first.kill()
	way.spoil(t, s)
	callers := startCallers(t, s.path)
	daemon := startAsService(t, s.dir, socket)
	awaitNotice(t, manager, "(?s)READY=1\nSTATUS=cannot serve: .*"+way.detail+".*; next try [0-9:]+")
	callers.await("503")
	awaitNotice(t, manager, "WATCHDOG=1")
	awaitNotice(t, manager, "(?s)READY=1\nSTATUS=cannot serve: .*"+way.detail+".*; next try [0-9:]+") // again, for the same reason
	s.checkRefusal(t, way)
	daemon.logs(t, "^cannot serve: .*"+way.detail)
	way.mend(t, s)
	switch way.how {
	case byHUP:
		must(t, daemon.cmd.Process.Signal(syscall.SIGHUP))
	case byReload:
		done, err := (&api.Client{Socket: s.path}).Reload(context.Background())
		if err != nil || !done.Started {
			t.Errorf("reload: %+v, %v", done, err)
		}
		if err := callOnce(s.path); err != nil {
			t.Errorf("after the reload: %v", err)
		}
	}
	daemon.logs(t, "^serving$")
	callers.await("200")
	callers.stop()
	daemon.stop(t)
}

// checkRefusal holds what callers are answered, and that the daemon says that it lives.
func (s *startScene) checkRefusal(t *testing.T, way failedStart) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.path)
	}}}
	defer client.CloseIdleConnections()
	for _, path := range []string{"/readyz", "/v1/status", "/metrics", "/nowhere"} {
		answer, err := client.Get("http://quotad" + path)
		must(t, err)
		var p api.Problem
		err = json.NewDecoder(answer.Body).Decode(&p)
		answer.Body.Close()
		wait, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		if err != nil || answer.StatusCode != http.StatusServiceUnavailable || string(p.Reason) != way.reason || wait < 1 || wait > 60 ||
			!regexp.MustCompile(way.detail).MatchString(p.Detail) || !strings.Contains(p.Hint, way.hint) {
			t.Errorf("%s: %s, Retry-After %d, %+v, %v", path, answer.Status, wait, p, err)
		}
	}
	for _, path := range []string{"/healthz", "/version"} {
		answer, err := client.Get("http://quotad" + path)
		must(t, err)
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, %s", path, answer.Status, text)
		}
	}
}

// Callers ask again and again, over connections of their own and over kept ones.
type callers struct {
	t      *testing.T
	end    context.CancelFunc
	asking sync.WaitGroup
	mu     sync.Mutex     // guards seen
	seen   map[string]int // by status
}

func startCallers(t *testing.T, path string) *callers {
	ctx, end := context.WithCancel(t.Context())
	c := &callers{t: t, end: end, seen: map[string]int{}}
	for i := range 8 {
		call := func() error { return callOnce(path) }
		if i%2 == 0 {
			client := &api.Client{Socket: path}
			call = func() error { return spendStatus(client) }
		}
		c.asking.Go(func() {
			for ctx.Err() == nil {
				c.note(call())
				time.Sleep(5 * time.Millisecond) // leave the processors to the daemons
			}
		})
	}
	t.Cleanup(c.stop)
	return c
}

// spendStatus acquires, and words an answer as callOnce does.
func spendStatus(client *api.Client) error {
	_, err := client.Acquire(context.Background(), api.AcquireRequest{Credential: "api", Operation: "list"})
	var p *api.Problem
	if errors.As(err, &p) {
		return fmt.Errorf("%d %w", p.Status, err)
	}
	return err
}

func (c *callers) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.seen["200"]++
	case strings.HasPrefix(err.Error(), "503 "):
		c.seen["503"]++
	default:
		c.t.Errorf("a caller is lost: %v", err)
		c.end()
	}
}

// await waits until callers were given a status again and again.
func (c *callers) await(status string) {
	c.t.Helper()
	count := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.seen[status]
	}
	for want := count() + 20; count() < want && !c.t.Failed(); {
		eventually(c.t, func() bool { return count() >= want || c.t.Failed() })
	}
}

func (c *callers) stop() {
	c.end()
	c.asking.Wait()
}

// startAsService is startOn with the file that is there.
func startAsService(t *testing.T, dir string, socket *os.File) *child {
	t.Helper()
	return startFile(t, dir, filepath.Join(dir, "config.toml"), socket, "LISTEN_FDNAMES=api")
}

// What leaves no socket to answer on ends the process.
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
