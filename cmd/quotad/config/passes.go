package config

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"quotad/jobs/process"
)

// Passes says what holds for the passes of all jobs together.
type Passes struct {
	Parallel int           // under way at once; 0: any number
	Drain    time.Duration // for which those under way may go on when the daemon stops
	// CgroupRoot is the directory of the cgroup in which each pass gets one of its
	// own; empty: none gets one.
	CgroupRoot string
	User       *process.User // whom passes run as; nil: the user that quotad runs as
}

const (
	defaultDrain = 30 * time.Second
	maxParallel  = 10_000
)

func (r *reader) passes(t *table) Passes {
	p := Passes{Drain: defaultDrain, CgroupRoot: r.cgroups(t), User: r.user(t)}
	if t.has("parallel") {
		p.Parallel = parallel(t)
	}
	if drain, ok := t.span("drain"); ok {
		p.Drain = drain
	}
	t.end()
	return p
}

// parallel is 1 where the key is missing.
func parallel(t *table) int {
	n := t.integer("parallel", 1)
	if n < 1 || n > maxParallel {
		t.fail("parallel", "must be from 1 to %d: %d", maxParallel, n)
		return 1
	}
	return int(n)
}

// cgroups returns where passes get cgroups: by default where systemd lets us.
func (r *reader) cgroups(t *table) string {
	switch text := t.text("cgroups", "auto"); text {
	case "auto":
		return process.DelegatedCgroup()
	case "off":
		return ""
	default:
		root := r.absolute(text)
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			t.fail("cgroups", `%q is no directory of cgroup v2: write "auto", "off", or one that quotad may write to, below /sys/fs/cgroup`, text)
		}
		return root
	}
}

// user returns whom passes run as, if it is somebody else than quotad itself.
func (r *reader) user(t *table) *process.User {
	name := t.text("user", "")
	if name == "" {
		return nil
	}
	u, err := process.LookupUser(name)
	var unknown user.UnknownUserError
	switch {
	case errors.As(err, &unknown):
		t.fail("user", "no user %q on this host: create it (useradd --system %s) or name another", name, name)
		return nil
	case err != nil:
		t.fail("user", "cannot look user %q up: %v", name, err)
		return nil
	case u.UID == os.Geteuid():
		return nil
	case u.UID == 0:
		t.fail("user", "passes of root would be operators: name a user of their own")
		return nil
	}
	if err := process.CanSwitch(); err != nil {
		t.fail("user", "cannot run passes as %q: %v: apply systemd/drop-ins/passes-user.conf, or start quotad as root", name, err)
		return nil
	}
	return u
}
