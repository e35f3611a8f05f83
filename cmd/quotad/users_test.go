package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"quotad/cmd/quotad/config"
	"quotad/jobs/process"
)

// Without a run token the user of jobs may only read: that of passes, or, as a service, quotad's own. By hand, jobs run as
// the user who started it.
func TestUserOfJobs(t *testing.T) {
	service := systemd{api: nowhere{}}
	for _, row := range []struct {
		user *process.User
		systemd
		want int
	}{
		{&process.User{UID: 33}, service, 33}, {&process.User{UID: 33}, systemd{}, 33}, {nil, service, os.Getuid()}, {nil, systemd{}, 0},
	} {
		c := &config.Config{}
		c.Passes.User = row.user
		if got := (&daemon{config: c, systemd: row.systemd}).jobsUID(); got != row.want {
			t.Errorf("%v, as a service %v: got %d, want %d", row.user, row.systemd.api != nil, got, row.want)
		}
	}
}

// The directory of a job is its user's. One that somebody else made there stays as it is.
func TestMakeFor(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	must(t, errors.Join(os.Mkdir(other, 0o700), os.Chown(other, 1, 1)))
	for path, want := range map[string]uint32{filepath.Join(dir, "new"): 33, dir: 33, other: 1} {
		must(t, makeFor(path, &process.User{UID: 33, GID: 33}))
		info, err := os.Lstat(path)
		if must(t, err); info.Sys().(*syscall.Stat_t).Uid != want {
			t.Errorf("%s is of %d, want %d", path, info.Sys().(*syscall.Stat_t).Uid, want)
		}
	}
}
