package systemd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"quotad/quota/api"
)

// hangTimeout is how long anything in the machine may take.
const hangTimeout = 2 * time.Minute

// A machine is a Debian in a directory, booted in a container of its own
// processes, users and network.
type machine struct {
	root   string
	source string // what is at /src in the machine: a clone after go build

	packages func() error // returns when there are packages in source, of two versions

	container *exec.Cmd // nil while it is off
	init      string    // the pid of its init on the host
	console   bytes.Buffer
	halted    chan struct{} // closed when it is off again
}

// boot starts the machine, which must succeed.
func (m *machine) boot(t *testing.T) {
	t.Helper()
	began := time.Now()
	if err := m.start(); err != nil {
		t.Fatal(err)
	}
	t.Logf("booted in %v", time.Since(began).Round(time.Millisecond))
}

// start returns when the machine has started everything that it starts.
func (m *machine) start() error {
	// In a namespace of its own, whose end is the end of every process in it: of
	// nspawn alone, the container would live on.
	m.container = alone(context.Background(), "systemd-nspawn", "--quiet", "--directory="+m.root, "--boot", "--register=no", "--keep-unit",
		"--console=pipe", "--private-network", "--bind-ro="+m.source+":/src")
	m.container.Stdout, m.container.Stderr = &m.console, &m.console
	if err := m.launch(); err != nil {
		return err
	}
	var state string
	settled := holds(func() bool {
		m.init = child(child(strconv.Itoa(m.container.Process.Pid))) // at first it is one that only prepares
		state, _ = m.try("systemctl is-system-running")
		return state == "running" || state == "degraded" || m.isOff()
	})
	if m.isOff() {
		return fmt.Errorf("the container ended: %v", m.container.ProcessState)
	}
	if !settled {
		return fmt.Errorf("after %v it is %s", hangTimeout, state)
	}
	return nil
}

// launch starts the container, and has it end with this process.
func (m *machine) launch() error {
	m.container.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	m.halted = make(chan struct{})
	started := make(chan error)
	go func() {
		defer close(m.halted)
		runtime.LockOSThread() // the signal comes when the thread ends
		err := m.container.Start()
		started <- err
		if err == nil {
			m.container.Wait()
		}
	}()
	return <-started
}

func (m *machine) isOff() bool {
	select {
	case <-m.halted:
		return true
	default:
		return false
	}
}

// alone is a command with processes and mounts of its own: when it ends, however
// it does, nothing is left of them on the host.
func alone(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "unshare", append([]string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", name}, args...)...)
}

// child returns the only child of a process, or "".
func child(pid string) string {
	children, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
	if pid == "" || err != nil {
		return ""
	}
	return strings.TrimSpace(string(children))
}

// off ends the machine, whatever it does.
func (m *machine) off(t *testing.T) {
	if m.container != nil {
		m.container.Process.Kill()
		<-m.halted
	}
	if t.Failed() {
		t.Logf("the machine's console:\n%s", tail(m.console.String()))
	}
}

// halt stops everything in order and returns when the machine is off.
func (m *machine) halt(t *testing.T) {
	t.Helper()
	m.sh(t, "systemctl poweroff")
	select {
	case <-m.halted:
		m.container = nil
	case <-time.After(hangTimeout):
		t.Fatal("the machine does not halt")
	}
}

// try runs a shell script as root in the machine.
func (m *machine) try(script string) (output string, code int) {
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "--target="+m.init, "--mount", "--pid", "--uts", "--ipc", "--net", "--",
		"sh", "-c", script)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "SYSTEMD_PAGER="}
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err.Error(), -1
	}
	return strings.TrimSpace(string(text)), cmd.ProcessState.ExitCode()
}

// sh is try of what must succeed.
func (m *machine) sh(t *testing.T, script string) (output string) {
	t.Helper()
	output, code := m.try(script)
	if code != 0 {
		t.Fatalf("%s: exit code %d:\n%s\n%s", script, code, tail(output), m.journal())
	}
	return output
}

// as is try as another user of the machine.
func (m *machine) as(user, script string) (output string, code int) {
	return m.try("exec runuser -u " + user + " -- sh -c '" + strings.ReplaceAll(script, "'", `'\''`) + "'")
}

// await waits until a script succeeds.
func (m *machine) await(t *testing.T, script string) {
	t.Helper()
	var output string
	succeeds := func() bool {
		var code int
		output, code = m.try(script)
		return code == 0
	}
	if !holds(succeeds) {
		t.Fatalf("%s: does not come true:\n%s\n%s", script, tail(output), m.journal())
	}
}

// property returns what systemd says of the service.
func (m *machine) property(t *testing.T, name string) string {
	t.Helper()
	return m.sh(t, "systemctl show --value --property="+name+" quotad.service")
}

// journal is how the service is, with the end of its log.
func (m *machine) journal() string {
	output, _ := m.try("systemctl status --lines=0 quotad.service; journalctl --no-pager --lines=25 --unit=quotad.service --unit=quotad.socket")
	return output
}

// client calls the daemon from outside the machine, as root.
func (m *machine) client() *api.Client {
	return &api.Client{Socket: filepath.Join("/proc", m.init, "root/run/quotad.sock")}
}

// write makes a file in the machine.
func (m *machine) write(t *testing.T, file, text string) {
	t.Helper()
	write(t, filepath.Join(m.root, file), text)
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	if !holds(is) {
		t.Fatalf("it does not come true that %s", what)
	}
}

// holds reports whether something comes true in good time.
func holds(is func() bool) bool {
	tick, late := time.NewTicker(50*time.Millisecond), time.After(hangTimeout)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			return false
		}
	}
	return true
}
