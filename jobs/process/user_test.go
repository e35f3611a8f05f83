package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"quotad/jobs"
)

// A user who runs nothing else.
const lonely = 61_234

// become launches a command as another user, and says what came of it.
func become(args []string) {
	fmt.Println("can switch:", CanSwitch())
	to, err := LookupUser(args[0])
	if err != nil {
		panic(err)
	}
	const who = `exec 2>/dev/null; id -nu; id -nG; sed -n 's/^\(Cap[IPEA][nrfm][hmfb]\):\t/\1 /p' /proc/self/status`
	for _, user := range []*User{to, nil} {
		c := jobs.Command{Args: []string{"/bin/sh", "-c", who}, Env: os.Environ(), Timeout: command().Timeout, KillGrace: command().KillGrace}
		exit := Launcher{User: user}.Launch(context.Background(), context.Background(), c, func(line jobs.Line) { fmt.Println(line.Text) })
		if exit.Err != nil {
			fmt.Println(exit.Err)
		}
	}
}

// A command gets the user, the groups of that user, and nothing of what it takes
// to become another one; without a user it is given what we have.
func TestUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	ordinary := &syscall.Credential{Uid: lonely, Gid: lonely}
	const all = "00000000000000e1" // of what is needed
	for _, row := range []struct {
		name string
		as   *syscall.SysProcAttr
		want []string
	}{
		{"root", nil, []string{
			"can switch: <nil>",
			"www-data", "www-data", "CapInh 0000000000000000", "CapPrm 0000000000000000", "CapEff 0000000000000000", "CapAmb 0000000000000000",
			"root",
		}},
		{"an ordinary user with capabilities", &syscall.SysProcAttr{Credential: ordinary, AmbientCaps: []uintptr{unix.CAP_CHOWN, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID}}, []string{
			"can switch: <nil>",
			"www-data", "www-data", "CapInh " + all, "CapPrm 0000000000000000", "CapEff 0000000000000000", "CapAmb 0000000000000000",
			strconv.Itoa(lonely),
		}},
		{"an ordinary user", &syscall.SysProcAttr{Credential: ordinary}, []string{
			"can switch: quotad lacks CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_CHOWN",
			`cannot start "/bin/sh": operation not permitted`,
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			cmd := exec.Command(programForAll(t), "become", "www-data")
			cmd.Env, cmd.Dir, cmd.SysProcAttr = append(bareEnv(), "PATH="+os.Getenv("PATH")), "/", row.as
			output, err := cmd.CombinedOutput()
			if want := strings.Join(row.want, "\n"); err != nil || !strings.HasPrefix(string(output), want) {
				t.Errorf("%v, got\n%s\nwant\n%s", err, output, want)
			}
		})
	}
}

// A command is in all groups of its user, and in none of ours.
func TestGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	c := command()
	c.Args, c.Dir = []string{"/bin/sh", "-c", "id -G"}, "/"
	user := &User{UID: lonely, GID: lonely, Groups: []int{lonely, lonely + 1}}
	var got string
	exit := Launcher{User: user}.Launch(t.Context(), t.Context(), c, func(line jobs.Line) { got += line.Text })
	if want := fmt.Sprint(lonely, lonely+1); got != want {
		t.Errorf("%+v, got groups %q, want %q", exit, got, want)
	}
}

// Who would be a job's user must be one.
func TestUnknownUser(t *testing.T) {
	if u, err := LookupUser("no-such-user"); err == nil {
		t.Errorf("got %+v", u)
	}
}

// programForAll returns this program where every user may execute it.
func programForAll(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	dir, err := os.MkdirTemp("", "quotad")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "program")
	if output, err := exec.Command("install", "-m", "755", self, path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	must(t, os.Chmod(dir, 0o755))
	return path
}
