package process

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"quotad/jobs"
)

// cgroupRoot makes a cgroup for a test, or skips it where none can be made.
func cgroupRoot(t testing.TB) string {
	t.Helper()
	own, err := ownCgroup()
	if err != nil {
		t.Skip("no cgroup v2 here: ", err)
	}
	root, err := os.MkdirTemp(own, "quotad-test-")
	if err != nil {
		t.Skip("no cgroup can be made here: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Rmdir(root); err != nil {
			t.Errorf("cannot remove %s, something is left in it: %v", root, err)
		}
	})
	return root
}

func TestNothingEscapesACgroup(t *testing.T) {
	for _, row := range []struct {
		name  string
		args  []string
		grace time.Duration
		pids  int
	}{
		{"nothing", []string{"exit", "0"}, time.Minute, 0},
		{"a child", []string{"leave", "sleep"}, time.Minute, 2},
		{"who left no trace", []string{"vanish", "leave", "sleep"}, time.Minute, 3},
		{"who left no trace and ignores TERM", []string{"vanish", "leave", "stubborn"}, 50 * time.Millisecond, 3},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := command(row.args...)
			c.KillGrace = row.grace
			root := cgroupRoot(t)
			if err := CheckCgroups(root); err != nil {
				t.Error(err)
			}
			b := begin(t, Launcher{Cgroups: root}, c)
			if b.id.Cgroup == "" {
				t.Fatal("it has no cgroup")
			}
			exit := b.end(b.ready(row.pids)...)
			if exit.Code != 0 || exit.Cause != nil || exit.Left != 0 || (exit.Swept > 0) != (row.pids > 0) {
				t.Errorf("got %+v, want success and what it left swept", exit)
			}
			if _, err := os.Stat(b.id.Cgroup); err == nil {
				t.Errorf("%s is left", b.id.Cgroup)
			}
		})
	}
}

func TestCancelEndsTheWholeCgroup(t *testing.T) {
	b := begin(t, Launcher{Cgroups: cgroupRoot(t)}, command("stay", "vanish", "stay", "sleep"))
	pids := b.ready(4)
	b.stop(jobs.ErrShutdown)
	if exit := b.end(pids...); exit.Cause != jobs.ErrShutdown || exit.Signal != "SIGTERM" {
		t.Errorf("got %+v, want SIGTERM for %v", exit, jobs.ErrShutdown)
	}
}

func TestKillOfACgroup(t *testing.T) {
	b := begin(t, Launcher{Cgroups: cgroupRoot(t)}, command("stay", "vanish", "stubborn"))
	pids := b.ready(3)
	cgroup(b.id.Cgroup).kill()
	if exit := b.end(pids...); exit.Cause != nil || exit.Signal != "SIGKILL" {
		t.Errorf("got %+v, want SIGKILL", exit)
	}
}

func TestWithoutACgroupItRunsAllTheSame(t *testing.T) {
	for name, root := range map[string]string{"no such directory": "/no/such/directory", "no cgroup": t.TempDir()} {
		if err := CheckCgroups(root); err == nil {
			t.Errorf("%s: nothing is wrong with it", name)
		}
		b := begin(t, Launcher{Cgroups: root}, command("exit", "3"))
		if exit := b.end(); exit.Code != 3 || exit.Err != nil || b.id.Cgroup != "" {
			t.Errorf("%s: got %+v in cgroup %q, want its own exit and none", name, exit, b.id.Cgroup)
		}
		if left, _ := filepath.Glob(root + "/*"); len(left) > 0 {
			t.Errorf("%s: left %q", name, left)
		}
	}
}

func TestCgroupDir(t *testing.T) {
	const mounts = "" +
		"24 30 0:22 / /proc rw,relatime - proc proc rw\n" +
		"31 30 0:27 /%s /sys/fs/cgroup ro,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	for _, row := range []struct{ name, root, path, want string }{
		{"on a host", "", "/system.slice/quotad.service", "/sys/fs/cgroup/system.slice/quotad.service"},
		{"at the root", "", "/", "/sys/fs/cgroup"},
		{"in a container", "docker/1", "/docker/1/sub", "/sys/fs/cgroup/sub"},
		{"outside of what is mounted", "docker/1", "/docker/2", ""},
	} {
		got, err := cgroupDir(row.path, strings.Replace(mounts, "%s", row.root, 1))
		if got != row.want || (err == nil) != (row.want != "") {
			t.Errorf("%s: got %q, %v, want %q", row.name, got, err, row.want)
		}
	}
}

func TestDelegated(t *testing.T) {
	root := cgroupRoot(t)
	if delegated(root) {
		t.Error("delegated, though nobody said so")
	}
	for value, want := range map[string]bool{"0": false, "10": false, "1": true} {
		if err := syscall.Setxattr(root, "user.delegate", []byte(value), 0); err != nil {
			t.Skip("no attributes on cgroups here: ", err)
		}
		if got := delegated(root); got != want {
			t.Errorf("%q: got %t, want %t", value, got, want)
		}
	}
}
