package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/quota/api"
)

const onSystemd = `
[credentials.api]
limits.daily.units = 100
operations.list = 1
[jobs.fetch]
credential = "api"
regions = ["one"]
cron = "$FAR * * *"
run_at_start = true
command = ["sh", "-c", "quotactl acquire list && env"]
`

// Systemd passes a socket, a state directory and its variables; a pass reaches the daemon through the socket and sees
// nothing of the rest. quotad reports that it is ready and alive, each reload, and that it stops.
func TestUnderSystemd(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	manager := notifySocket(t, dir)
	daemon := startConfigured(t, dir, onSystemd)
	if got := receive(t, manager); !strings.HasPrefix(got, "READY=1\nSTATUS=") {
		t.Errorf("the first notification is %q", got)
	}
	daemon.logs(t, "^QUOTAD_SOCKET="+serviceClient(dir).Socket+"$", "region=one")
	daemon.logs(t, "^pass ok$", "units=1")
	if _, err := os.Stat(filepath.Join(dir, "state", lockName)); err != nil {
		t.Errorf("the state directory is not the one that systemd passed: %v", err)
	}
	if leak := regexp.MustCompile(`"(NOTIFY_SOCKET|WATCHDOG|LISTEN_|CREDENTIALS_|INVOCATION_ID|STATE_DIRECTORY)[^"]*"`).FindString(daemon.whole()); leak != "" {
		t.Errorf("a pass sees %s", leak)
	}

	reload := func(text string) {
		t.Helper()
		write(t, dir, "config.toml", text)
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
	if _, err := os.Stat(serviceClient(dir).Socket); err != nil {
		t.Errorf("the socket is systemd's to remove: %v", err)
	}
}

// A daemon that answers is alive to systemd, whatever the answer is; one that only listens is not.
func TestBeat(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int // of the answers; 0: it listens only
		within time.Duration
		lives  bool
	}{
		{"it answers", http.StatusOK, hangTimeout, true},
		{"it refuses", http.StatusServiceUnavailable, hangTimeout, true},
		{"it listens only", 0, 100 * time.Millisecond, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := shortDir(t)
			manager := notifySocket(t, dir)
			listener, err := net.Listen("unix", filepath.Join(dir, "api"))
			must(t, err)
			defer listener.Close()
			if test.status != 0 {
				go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(test.status) }))
			}
			d := &daemon{callers: listener, systemd: systemd{notifySocket: filepath.Join(dir, "notify")}}
			d.beat(test.within)
			d.notifySystemd("STATUS=after")
			if got := receive(t, manager); (got == "WATCHDOG=1") != test.lives {
				t.Errorf("got %q, want that it lives: %v", got, test.lives)
			}
		})
	}
}

// The status is one line, whatever an upstream or a script says: another line would be an assignment to systemd. Without a
// trouble it is the next run of a job that is not paused.
func TestStatusLine(t *testing.T) {
	now := time.Now()
	next := func(name string, in time.Duration, pause *jobs.Pause) jobs.Status {
		return jobs.Status{Name: name, Next: now.Add(in), Pause: pause}
	}
	all := []jobs.Status{next("late", time.Hour, nil), next("soon", time.Minute, nil), next("paused", time.Second, &jobs.Pause{}), {Name: "manual"}}
	for _, row := range []struct {
		list []trouble.Trouble
		all  []jobs.Status
		want string
	}{
		{[]trouble.Trouble{{Says: "bad\nMAINPID=1"}, {Says: "worse"}}, all, "bad MAINPID=1"},
		{nil, all, "next soon " + trouble.At(now.Add(time.Minute), now)},
		{nil, all[2:], trouble.Nothing},
	} {
		if got := statusLine(row.list, row.all, now); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
}

func TestSocketOfAnotherName(t *testing.T) {
	dir := shortDir(t)
	write(t, dir, "config.toml", onSystemd)
	daemon := startAsService(t, dir, passedSocket(t, dir), "LISTEN_FDNAMES=metrics")
	daemon.logs(t, `^quotad: error: systemd passed 1 sockets named "metrics": one named "api" is expected`)
	if code, err := daemon.end(); code != exitError || err != nil {
		t.Errorf("exit code %d: %v", code, err)
	}
}

// In the journal each line has its level, and so has why quotad cannot run. Redirected by a shell, say, stderr is not what
// systemd named, and has none.
func TestJournalKnowsLevels(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "journal"))
	must(t, err)
	var stat syscall.Stat_t
	must(t, syscall.Fstat(int(file.Fd()), &stat))
	const levelled = `<6>{"message":"a","level":"info"}
<3>{"message":"b","level":"error"}
<3>quotad: error: c
<3>quotad: error: d
`
	plain := regexp.MustCompile(`<\d>`).ReplaceAllString(levelled, "")
	own := fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
	for _, row := range []struct{ stream, want string }{{own, levelled}, {"8:1", plain}, {"", plain}} {
		must(t, file.Truncate(0))
		_, err := file.Seek(0, io.SeekStart)
		must(t, err)
		stderr := asJournal(file, row.stream)
		log := newLogger(stderr).With().Logger()
		log.Info().Msg("a")
		log.Error().Msg("b")
		fmt.Fprint(stderr, "quotad: error: c\nquotad: error: d\n")
		if got := regexp.MustCompile(`,"time":"[^"]*"`).ReplaceAllString(readPage(t, file.Name()), ""); got != row.want {
			t.Errorf("%q: got\n%s\nwant\n%s", row.stream, got, row.want)
		}
	}
}

// A service manager that does not read does not keep quotad waiting for long.
func TestSystemdThatDoesNotRead(t *testing.T) {
	dir := shortDir(t)
	notifySocket(t, dir)
	s := systemd{notifySocket: filepath.Join(dir, "notify")}
	var err error
	for n := 0; n < 2_000 && err == nil; n++ { // the kernel holds some
		err = s.notify("STATUS=idle")
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want that nobody listened in time", err)
	}
}

// notifySocket is where systemd listens.
func notifySocket(t *testing.T, dir string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func receive(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	must(t, conn.SetReadDeadline(time.Now().Add(hangTimeout)))
	message := make([]byte, 4096)
	n, err := conn.Read(message)
	must(t, err)
	return string(message[:n])
}

// awaitNotice waits for a notification that a pattern matches as a whole; those before it are passed over.
func awaitNotice(t *testing.T, conn *net.UnixConn, pattern string) {
	t.Helper()
	for whole := regexp.MustCompile("^(?:" + pattern + ")$"); !whole.MatchString(receive(t, conn)); {
	}
}

// passedSocket listens as systemd does for its services, at api.sock in a directory.
func passedSocket(t *testing.T, dir string) *os.File {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "api.sock"), Net: "unix"})
	must(t, err)
	listener.SetUnlinkOnClose(false)
	defer listener.Close()
	file, err := listener.File()
	must(t, err)
	t.Cleanup(func() { file.Close() })
	return file
}

// serviceClient returns a client of the daemon that systemd serves in a directory.
func serviceClient(dir string) *api.Client {
	return &api.Client{Socket: filepath.Join(dir, "api.sock")}
}

// startConfigured starts quotad as systemd would, with a configuration.
func startConfigured(t *testing.T, dir, text string) *child {
	t.Helper()
	write(t, dir, "config.toml", text)
	return startAsService(t, dir, passedSocket(t, dir))
}

// startAsService starts quotad as systemd would: with a listening socket as its third descriptor.
func startAsService(t *testing.T, dir string, socket *os.File, environ ...string) *child {
	t.Helper()
	// LISTEN_PID is the pid of the process that the shell becomes.
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec quotad --config "$0"`, filepath.Join(dir, "config.toml"))
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{socket}
	cmd.Env = append(os.Environ(), "LISTEN_FDS=1", "LISTEN_FDNAMES=api", "NOTIFY_SOCKET="+filepath.Join(dir, "notify"),
		"STATE_DIRECTORY="+filepath.Join(dir, "state")+":/elsewhere", "WATCHDOG_USEC=1000000", "INVOCATION_ID=0", "CREDENTIALS_DIRECTORY=/run/credentials")
	cmd.Env = append(cmd.Env, environ...)
	daemon, err := startChild(cmd)
	must(t, err)
	t.Cleanup(daemon.kill)
	return daemon
}
