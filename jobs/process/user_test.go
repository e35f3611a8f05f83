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
	"time"

	"golang.org/x/sys/unix"

	"quotad/jobs"
)

// A user who runs nothing else.
const lonely = 61_234

// become launches a command as another user, and says what came of it.
func become(args []string) {
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
			"www-data", "www-data", "CapInh 0000000000000000", "CapPrm 0000000000000000", "CapEff 0000000000000000", "CapAmb 0000000000000000",
			"root",
		}},
		{"an ordinary user with capabilities", &syscall.SysProcAttr{Credential: ordinary, AmbientCaps: []uintptr{unix.CAP_CHOWN, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID}}, []string{
			"www-data", "www-data", "CapInh " + all, "CapPrm 0000000000000000", "CapEff 0000000000000000", "CapAmb 0000000000000000",
			strconv.Itoa(lonely),
		}},
		{"an ordinary user", &syscall.SysProcAttr{Credential: ordinary}, []string{
			`cannot start "/bin/sh": quotad lacks what it takes to become user www-data: remove systemd/drop-ins/daemon-user.conf, or start it as root`,
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
	lines, exit := run(t, Launcher{User: &User{UID: lonely, GID: lonely, Groups: []int{lonely, lonely + 1}}}, c)
	if len(lines) != 1 || lines[0].Text != fmt.Sprint(lonely, lonely+1) {
		t.Errorf("%+v, got groups %v", exit, lines)
	}
	if u, err := LookupUser("no-such-user"); err == nil {
		t.Errorf("got %+v", u)
	}
}

// What a user cannot execute, or not enter, is said by the pass, with the user and how to find what is closed.
func TestProgramsOutOfReach(t *testing.T) {
	u, err := LookupUser("nobody")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	root := filepath.Dir(programForAll(t))
	must(t, os.Mkdir(root+"/closed", 0o700))
	must(t, os.WriteFile(root+"/closed/good", []byte("#!/bin/sh\n"), 0o755))
	must(t, os.Mkdir(root+"/group", 0o750))
	must(t, os.Chown(root+"/group", 0, u.GID))
	for _, row := range []struct {
		program, dir string
		starts       bool
	}{{"/bin/true", root, true}, {"/bin/true", root + "/group", true}, {root + "/closed/good", root, false}, {"/bin/true", root + "/closed", false}} {
		_, exit := run(t, Launcher{User: u}, jobs.Command{Args: []string{row.program}, Env: []string{"PATH=/none"}, Dir: row.dir, Timeout: time.Minute, KillGrace: time.Second})
		want := fmt.Sprintf("cannot start %q: user nobody may not execute it, or cannot enter a directory: namei -l %[1]s %s shows what is closed: chmod 755 it, ", row.program, row.dir)
		if row.starts != (exit.Err == nil) || !row.starts && !strings.HasPrefix(exit.Err.Error(), want) {
			t.Errorf("%s in %s: got %+v, want it started: %v, or %q", row.program, row.dir, exit, row.starts, want)
		}
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
