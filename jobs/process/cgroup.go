package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// DelegatedCgroup returns the directory of this process's own cgroup, if it is
// of cgroup v2 and systemd has left it to us (Delegate=yes), else "".
func DelegatedCgroup() string {
	dir, err := ownCgroup()
	if err != nil || !delegated(dir) {
		return ""
	}
	return dir
}

// delegated looks for the mark that systemd sets on what it leaves to others:
// permission alone says nothing about a daemon that runs as root.
func delegated(dir string) bool {
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		value := make([]byte, 1)
		if n, err := syscall.Getxattr(dir, name, value); err == nil && n == 1 && value[0] == '1' {
			return true
		}
	}
	return false
}

// ownCgroup finds the directory of this process's cgroup: its path within the
// hierarchy, below wherever that is mounted.
func ownCgroup() (string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(own)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return cgroupDir(path, string(mounts))
		}
	}
	return "", errors.New("no cgroup v2")
}

// cgroupDir returns the directory of a cgroup, given proc_pid_mountinfo(5): the fourth field of a mount is the path
// within the hierarchy that is mounted, the fifth is where; the kind follows a hyphen.
func cgroupDir(path, mounts string) (string, error) {
	for line := range strings.Lines(mounts) {
		mount, kind, _ := strings.Cut(line, " - ")
		fields := strings.Fields(mount)
		if !strings.HasPrefix(kind, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		if below, err := filepath.Rel(fields[3], path); err == nil && filepath.IsLocal(below) {
			return filepath.Join(fields[4], below), nil
		}
	}
	return "", errors.New("cgroup v2 is not mounted")
}

// A cgroup is the directory of one that was made for a command, by this daemon or one before it.
// "" is none, and has no processes, as one that no longer exists.
type cgroup string

// CheckCgroups returns why no command gets a cgroup below a directory, as far as that shows before one is started.
func CheckCgroups(root string) error {
	dir, err := os.MkdirTemp(root, "pass-")
	if err != nil {
		return err
	}
	defer cgroup(dir).remove()
	file, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return file.Close()
}

// processes returns what runs in the cgroup, or in one that was made within it, without what has ended.
func (g cgroup) processes() []process {
	var all []process
	for _, dir := range g.dirs() {
		content, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for field := range strings.FieldsSeq(string(content)) {
			pid, _ := strconv.Atoi(field)
			if p, err := readProcess(pid); err == nil && !p.zombie {
				all = append(all, p)
			}
		}
	}
	return all
}

// kill ends all processes of the cgroup, of any user.
func (g cgroup) kill() {
	if g == "" || os.WriteFile(filepath.Join(string(g), "cgroup.kill"), []byte("1"), 0) == nil {
		return
	}
	for _, p := range g.processes() { // Linux before 5.14
		p.signal(syscall.SIGKILL)
	}
}

// remove removes the cgroup, unless a process is left in it. One that has ended may keep it
// busy until the kernel has switched away from it for the last time.
func (g cgroup) remove() {
	const patience = 1000
	for range patience {
		for _, dir := range slices.Backward(g.dirs()) {
			_ = syscall.Rmdir(dir)
		}
		if len(g.dirs()) == 0 || len(g.processes()) > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// dirs returns the cgroup's directory and those within it, from the outside in.
func (g cgroup) dirs() []string {
	if g == "" {
		return nil
	}
	var dirs []string
	_ = filepath.WalkDir(string(g), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs
}
