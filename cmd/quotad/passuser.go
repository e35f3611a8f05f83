package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"quotad/cmd/quotad/config"
	"quotad/jobs/process"
)

// jobsUID is the user of jobs, who without a run token may only read; 0: there is
// nobody of whom that could be told. Whoever starts quotad by hand asks as the same
// user as the jobs.
func (s *supervisor) jobsUID() int {
	switch {
	case s.config != nil && s.config.Passes.User != nil:
		return s.config.Passes.User.UID
	case s.systemd.api != nil:
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
func (d *daemon) openWorkDirs(context.Context) error {
	return d.makeWorkDirs(d.config)
}

func (d *daemon) makeWorkDirs(c *config.Config) error {
	kept, err := makeWorkDirs(c)
	for _, file := range kept {
		d.log.Warn().Str("file", file).Msg("not given to the user of jobs: the file has a second name, under which it may be quotad's")
	}
	return err
}

// sayWhatJobsShare tells a person who starts quotad by hand, once, what jobs share with it.
func (d *daemon) sayWhatJobsShare() {
	if d.config.Passes.User == nil && d.systemd.notifySocket == "" && len(d.config.Jobs) > 0 {
		d.log.Info().Int("uid", os.Getuid()).
			Msg("jobs run as the user of quotad: they can read and change its ledger, its configuration and their secrets, and end it: give them a user of their own by user in [passes]")
	}
}

// makeWorkDirs makes the directories of jobs that name none, where passes run as
// another user: they belong to that one, who may enter those above but not look
// around there. Whatever else is in the state directory stays ours alone. Kept are files
// that stay ours in such a directory.
func makeWorkDirs(c *config.Config) (kept []string, err error) {
	if c.Passes.User == nil {
		return nil, nil
	}
	if err := enterable(c.StateDir); err != nil {
		return nil, err
	}
	for _, job := range c.Jobs {
		if !job.MakeDir {
			continue // an operator's directory
		}
		stay, err := []string(nil), enterable(c.DataDir())
		if err == nil {
			stay, err = give(job.Dir, c.Passes.User)
		}
		if err != nil {
			return kept, fmt.Errorf("cannot make a directory for the passes of %q: %w", job.Name, err)
		}
		kept = append(kept, stay...)
	}
	return kept, nil
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

// give makes a directory and gives it to a user. One that is ours, in which passes ran as
// our own user before, is given with all of ours in it, but for files that have another
// name besides (kept): a pass can have linked one of ours, the ledger, into its directory.
// One that is somebody else's stays so.
func give(dir string, user *process.User) (kept []string, err error) {
	if err := os.Mkdir(dir, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	var all []string
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		switch stat := info.Sys().(*syscall.Stat_t); {
		case int(stat.Uid) != os.Geteuid() && path == dir:
			return filepath.SkipAll
		case int(stat.Uid) != os.Geteuid():
		case !info.IsDir() && stat.Nlink > 1:
			kept = append(kept, path)
		default:
			all = append(all, path)
		}
		return nil
	})
	// The directory itself is the last: until then the next start does the rest.
	for _, path := range slices.Backward(all) {
		err = errors.Join(err, os.Lchown(path, user.UID, user.GID))
	}
	return kept, err
}
