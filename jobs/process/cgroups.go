package process

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// Cgroups makes a cgroup for each command, below one directory, and ends what is in any
// other cgroup there: a command that may write there, as one of our own user may, could
// make a second cgroup and outlive its end in it. Nil makes none. Any number of
// goroutines may use it at the same time.
type Cgroups struct {
	root string
	// stranger is called with each cgroup that is no command's, after its end.
	stranger func(dir string, processes int)

	mu   sync.Mutex      // guards live
	live map[cgroup]bool // those of commands
}

// NewCgroups returns the cgroups below a directory of cgroup v2 that is ours alone, see
// DelegatedCgroup; of "", nil. The daemon itself may be in that directory's own cgroup:
// no controller is needed to hold processes together.
func NewCgroups(root string, stranger func(dir string, processes int)) *Cgroups {
	if root == "" {
		return nil
	}
	return &Cgroups{root: root, stranger: stranger, live: make(map[cgroup]bool)}
}

// Check returns why no command gets a cgroup, as far as that shows before one is started.
func (c *Cgroups) Check() error {
	if c == nil {
		return nil
	}
	dir, err := os.MkdirTemp(c.root, "pass-")
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

// make makes a cgroup for a command, or returns "" where that cannot be.
func (c *Cgroups) make() cgroup {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	dir, err := os.MkdirTemp(c.root, "pass-")
	if err != nil {
		return ""
	}
	c.live[cgroup(dir)] = true
	return cgroup(dir)
}

// remove removes the cgroup of a command that has ended, and every other one that is no
// command's, with what is in it.
func (c *Cgroups) remove(group cgroup) {
	group.remove()
	if c == nil {
		return
	}
	c.mu.Lock()
	delete(c.live, group)
	c.mu.Unlock()
	for _, stranger := range c.strangers() {
		processes := len(stranger.processes())
		stranger.end()
		if c.stranger != nil {
			c.stranger(string(stranger), processes)
		}
	}
}

// strangers returns the cgroups that are no command's.
func (c *Cgroups) strangers() []cgroup {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries, err := os.ReadDir(c.root)
	if err != nil {
		return nil
	}
	var list []cgroup
	for _, entry := range entries {
		if dir := filepath.Join(c.root, entry.Name()); entry.IsDir() && !c.live[cgroup(dir)] && !isControl(dir) {
			list = append(list, cgroup(dir))
		}
	}
	return list
}

// isControl reports whether systemd made a cgroup below ours, in which it reloads and stops a
// service that has cgroups of its own.
func isControl(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil || filepath.Base(dir) != ".control" {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0
}
