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

// What a command leaves running ends with it: its process group, or its cgroup, which nothing escapes.
func TestWhatACommandLeavesIsSwept(t *testing.T) {
	for _, row := range []struct {
		name   string
		cgroup bool
		args   []string
		grace  time.Duration
		pids   int
	}{
		{"a child that holds its output", false, []string{"leave", "sleep"}, time.Minute, 2},
		{"a child that ignores TERM", false, []string{"leave", "stubborn"}, 50 * time.Millisecond, 2},
		{"a stopped child", false, []string{"leave", "stop"}, time.Minute, 2},
		{"nothing", true, nil, time.Minute, 0},
		{"who left no trace", true, []string{"vanish", "leave", "sleep"}, time.Minute, 3},
		{"who left no trace and ignores TERM", true, []string{"vanish", "leave", "stubborn"}, 50 * time.Millisecond, 3},
	} {
		t.Run(row.name, func(t *testing.T) {
			l, c := Launcher{}, command(row.args...)
			if row.args == nil {
				c = shell("exit 0")
			}
			if c.KillGrace = row.grace; row.cgroup {
				l.Cgroups = cgroupRoot(t)
				must(t, CheckCgroups(l.Cgroups))
			}
			other := begin(t, l, command("sleep"))
			spared := other.ready(1)
			b := begin(t, l, c)
			exit := b.end(b.ready(row.pids)...)
			if exit.Code != 0 || exit.Cause != nil || exit.Signal != "" || exit.Left != 0 || (exit.Swept > 0) != (row.pids > 0) {
				t.Errorf("got %+v, want success and what it left swept", exit)
			}
			if _, err := os.Stat(b.id.Cgroup); row.cgroup && (b.id.Cgroup == "" || err == nil) {
				t.Errorf("its cgroup is %q, and left: %v", b.id.Cgroup, err == nil)
			}
			other.stop(jobs.ErrShutdown)
			if exit := other.end(spared...); exit.Cause != jobs.ErrShutdown || exit.Signal != "SIGTERM" {
				t.Errorf("another pass: got %+v, want it to have run until %v", exit, jobs.ErrShutdown)
			}
		})
	}
}

func TestWithoutACgroupItRunsAllTheSame(t *testing.T) {
	for name, root := range map[string]string{"no such directory": "/no/such/directory", "no cgroup": t.TempDir()} {
		if err := CheckCgroups(root); err == nil {
			t.Errorf("%s: nothing is wrong with it", name)
		}
		b := begin(t, Launcher{Cgroups: root}, shell("exit 3"))
		if exit := b.end(); exit.Code != 3 || exit.Err != nil || b.id.Cgroup != "" {
			t.Errorf("%s: got %+v in cgroup %q, want its own exit and none", name, exit, b.id.Cgroup)
		}
		if left, _ := filepath.Glob(root + "/*"); len(left) > 0 {
			t.Errorf("%s: left %q", name, left)
		}
	}
}

// Launches leave no descriptor open in the daemon.
func TestNoDescriptorIsLeft(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(entries)
	}
	run(t, Launcher{}, shell("exit 0")) // os/exec and the runtime open what they keep
	before := open()
	for range 5 {
		run(t, Launcher{}, shell("exit 0"))
	}
	if got := open(); got != before {
		t.Errorf("%d descriptors are open, want %d", got, before)
	}
}

func TestCgroupDir(t *testing.T) {
	const mounts = "" +
		"24 30 0:22 / /proc rw,relatime - proc proc rw\n" +
		"31 30 0:27 /%s /sys/fs/cgroup ro,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	for _, row := range []struct{ name, root, path, want string }{
		{"on a host", "", "/system.slice/quotad.service", "/sys/fs/cgroup/system.slice/quotad.service"},
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
