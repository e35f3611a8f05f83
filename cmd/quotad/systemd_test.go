package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
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

// Systemd passes a socket, a state directory and its variables; a pass reaches
// the daemon through the socket and sees nothing of the rest.
func TestUnderSystemd(t *testing.T) {
	dir := shortDir(t)
	manager, path := notifySocket(t, dir), filepath.Join(dir, "api.sock")
	daemon := startUnderSystemd(t, dir, path, "LISTEN_FDNAMES=api")
	if got := receive(t, manager); !strings.HasPrefix(got, "READY=1\nSTATUS=") {
		t.Errorf("the first notification is %q", got)
	}
	daemon.logs(t, "^QUOTAD_SOCKET="+path+"$", "region=one")
	daemon.logs(t, "^pass ok$", "units=1")
	if _, err := os.Stat(filepath.Join(dir, "state", lockName)); err != nil {
		t.Errorf("the state directory is not the one that systemd passed: %v", err)
	}
	if leak := regexp.MustCompile(`"(NOTIFY_SOCKET|WATCHDOG|LISTEN_|CREDENTIALS_|INVOCATION_ID|STATE_DIRECTORY)[^"]*"`).FindString(daemon.text()); leak != "" {
		t.Errorf("a pass sees %s", leak)
	}
	must(t, daemon.cmd.Process.Signal(syscall.SIGTERM))
	awaitNotice(t, manager, `STOPPING=1\nSTATUS=.*\nEXTEND_TIMEOUT_USEC=.*`)
	if code, err := daemon.end(); code != exitOK || err != nil {
		t.Errorf("exit code %d: %v", code, err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the socket is systemd's to remove: %v", err)
	}
}

// What a careless parent left open in the daemon stays there.
func TestPassesInheritNoDescriptor(t *testing.T) {
	dir := shortDir(t)
	files := map[string]string{"left-open": "", "config.toml": strings.Replace(onSystemd, "&& env", "&& ls -l /proc/self/fd && echo listed", 1)}
	for name, text := range files {
		write(t, dir, name, text)
	}
	cmd := exec.Command("sh", "-c", "exec quotad 7<left-open")
	cmd.Dir = dir
	daemon, err := startChild(cmd)
	must(t, err)
	t.Cleanup(daemon.kill)
	daemon.logs(t, "^listed$")
	if open, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/7", cmd.Process.Pid)); filepath.Base(open) != "left-open" && os.Getuid() == 0 { // nobody else may look
		t.Errorf("the daemon itself has %q open: %v", open, err)
	}
	if strings.Contains(daemon.whole(), "left-open") {
		t.Errorf("a pass has it open, too:\n%s", daemon.text())
	}
}

func TestSocketOfAnotherName(t *testing.T) {
	dir := shortDir(t)
	notifySocket(t, dir)
	daemon := startUnderSystemd(t, dir, filepath.Join(dir, "api.sock"), "LISTEN_FDNAMES=metrics")
	daemon.logs(t, `^quotad: error: systemd passed 1 sockets named "metrics": one named "api" is expected`)
	if code, err := daemon.end(); code != exitError || err != nil {
		t.Errorf("exit code %d: %v", code, err)
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

// awaitNotice waits for a notification that a pattern matches as a whole; those
// before it are passed over.
func awaitNotice(t *testing.T, conn *net.UnixConn, pattern string) {
	t.Helper()
	for whole := regexp.MustCompile("^(?:" + pattern + ")$"); !whole.MatchString(receive(t, conn)); {
	}
}

// startUnderSystemd starts quotad as systemd would: with a listening socket as
// its third descriptor.
func startUnderSystemd(t *testing.T, dir, path, names string) *child {
	t.Helper()
	return startConfigured(t, dir, onSystemd, path, names)
}

func startConfigured(t *testing.T, dir, text, path, names string) *child {
	t.Helper()
	return startOn(t, dir, text, passedSocket(t, path), names)
}

// passedSocket listens as systemd does for its services.
func passedSocket(t *testing.T, path string) *os.File {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	listener.SetUnlinkOnClose(false)
	defer listener.Close()
	file, err := listener.File()
	must(t, err)
	t.Cleanup(func() { file.Close() })
	return file
}

func startOn(t *testing.T, dir, text string, socket *os.File, names string) *child {
	t.Helper()
	writeConfig(t, dir, text)
	return startFile(t, dir, filepath.Join(dir, "config.toml"), socket, names)
}

func startFile(t *testing.T, dir, config string, socket *os.File, names string) *child {
	t.Helper()
	// LISTEN_PID is the pid of the process that the shell becomes.
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec quotad --config "$0"`, config)
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{socket}
	cmd.Env = append(os.Environ(), "LISTEN_FDS=1", names, "NOTIFY_SOCKET="+filepath.Join(dir, "notify"),
		"STATE_DIRECTORY="+filepath.Join(dir, "state")+":/elsewhere", "WATCHDOG_USEC=1000000", "INVOCATION_ID=0", "CREDENTIALS_DIRECTORY=/run/credentials")
	daemon, err := startChild(cmd)
	must(t, err)
	t.Cleanup(daemon.kill)
	return daemon
}

// What systemd says to quotad is not left for its children.
func TestWhatSystemdSaysIsTaken(t *testing.T) {
	for name, value := range map[string]string{
		"STATE_DIRECTORY": "/state:/elsewhere", "CREDENTIALS_DIRECTORY": "/run/credentials/quotad", passesUserEnv: "nobody",
		"NOTIFY_SOCKET": "/notify", "WATCHDOG_USEC": "4000000", "WATCHDOG_PID": strconv.Itoa(os.Getpid()),
		"INVOCATION_ID": "0", "JOURNAL_STREAM": "8:1", "MAINPID": "1",
		"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "api",
	} {
		t.Setenv(name, value)
	}
	s, err := readSystemd()
	must(t, err)
	want := systemd{
		stateDirectory: "/state", passesUser: "nobody",
		notifySocket: "/notify", journalStream: "8:1", watchdog: 4 * time.Second,
	}
	if s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
	ofSystemd := regexp.MustCompile("^(STATE|WATCHDOG|CREDENTIALS|INVOCATION|JOURNAL|MAINPID|LISTEN|QUOTAD_PASSES)")
	for _, entry := range os.Environ() {
		if ofSystemd.MatchString(entry) {
			t.Errorf("%s is left", entry)
		}
	}
}

// A service manager that does not read keeps nobody from starting or stopping.
func TestManagerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	notifySocket(t, dir)
	s := systemd{notifySocket: filepath.Join(dir, "notify")}
	var err error
	for range 2_000 { // the kernel holds some
		if err = s.notify("STATUS=idle"); err != nil {
			break
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want that nobody listened in time", err)
	}
}
