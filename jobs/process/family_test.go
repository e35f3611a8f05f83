package process

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
