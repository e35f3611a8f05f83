package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"quotad/cmd/quotad/config"
	"quotad/jobs/process"
)

// jobsUID is the user of jobs, who without a run token may only read; 0: there is
// nobody of whom that could be told. Whoever starts quotad by hand asks as the same
// user as the jobs.
func (d *daemon) jobsUID() int {
	switch {
	case d.config.Passes.User != nil:
		return d.config.Passes.User.UID
	case d.systemd.api != nil:
		return os.Getuid()
	default:
		return 0
	}
}

// passEnviron is our own environment, as passes inherit it: with their own home.
func (d *daemon) passEnviron() []string {
	user := d.config.Passes.User
	if user == nil {
		return os.Environ()
	}
	var environ []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "HOME=") {
			environ = append(environ, entry)
		}
	}
	return append(environ, "HOME="+user.Home)
}

// eventLauncher runs the commands of events, as our own user. They inherit none of
// the capabilities that we were given to launch passes as another user.
func (d *daemon) eventLauncher() (process.Launcher, error) {
	launcher := process.Launcher{Cgroups: d.cgroups, Reaper: d.reaper}
	if d.config.Passes.User == nil {
		return launcher, nil
	}
	var err error
	launcher.User, err = process.OwnUser()
	return launcher, err
}

// openWorkDirs lets passes of another user into the directories that they run in.
func (d *daemon) openWorkDirs(context.Context) error { return makeWorkDirs(d.config) }

// makeWorkDirs makes the directories of jobs that name none, where passes run as
// another user: they belong to that one, who may enter those above but not look
// around there. Whatever else is in the state directory stays ours alone.
func makeWorkDirs(c *config.Config) error {
	if c.Passes.User == nil {
		return nil
	}
	if err := enterable(c.StateDir); err != nil {
		return err
	}
	for _, job := range c.Jobs {
		if filepath.Dir(job.Dir) != c.DataDir() {
			continue // an operator's directory
		}
		if err := errors.Join(enterable(c.DataDir()), give(job.Dir, c.Passes.User)); err != nil {
			return fmt.Errorf("cannot make a directory for the passes of %q: %w", job.Name, err)
		}
	}
	return nil
}

// enterable makes a directory that everybody may enter, and we alone may list.
func enterable(dir string) error {
	const enter = 0o001
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&enter != 0 {
		return err
	}
	return os.Chmod(dir, info.Mode().Perm()|enter)
}

// give makes a directory and gives it to a user. One that is there already is its
// owner's.
func give(dir string, user *process.User) error {
	err := os.Mkdir(dir, 0o750)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Lchown(dir, user.UID, user.GID)
}
