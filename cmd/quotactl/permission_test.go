package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSocketOfAnotherGroup: whoever may not connect is told which group may.
func TestSocketOfAnotherGroup(t *testing.T) {
	dir, err := os.MkdirTemp("", "qc") // t.TempDir is closed to other users, and long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	state := filepath.Join(dir, "state")
	socket := filepath.Join(state, "q.sock")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(state, 0o755)); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	program := copyOfTest(t, dir)

	const daemons = 1 // a group that every Debian system has
	checkPermission(t, program, socket, socket, daemons, " is for members of group daemon: usermod -aG daemon ")
	checkPermission(t, program, socket, socket, 0, " is for root alone: ask as root")
	checkPermission(t, program, socket, state, daemons, " is for members of group daemon: usermod -aG daemon ")
}

// checkPermission closes a file, gives it to a group, and asks at the socket as
// somebody else.
func checkPermission(t *testing.T, program, socket, closed string, gid int, want string) {
	t.Helper()
	cmd := exec.Command(program, "--socket", socket)
	cmd.Env = []string{"LC_ALL=C.UTF-8"}
	if os.Geteuid() == 0 { // whom no mode stops
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if err := os.Chown(closed, 0, gid); err != nil {
			t.Fatal(err)
		}
	} else {
		want = "quotactl: hint: " // the group is one's own, whichever that is
	}
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(closed, 0o755)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitUnreachable {
		t.Errorf("got %v, want exit status %d", err, exitUnreachable)
	}
	for _, want := range []string{"quotactl: error: cannot reach quotad", "permission denied", "quotactl: hint: ", want} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, &stderr)
		}
	}
}

// copyOfTest puts the test program where any user can run it, under the name by
// which it is quotactl.
func copyOfTest(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "quotactl")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
