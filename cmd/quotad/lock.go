package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// lockName is the file whose lock shows that a daemon uses the state directory.
// It holds the daemon's pid, for people, and when daemons began of which the one before was killed: a daemon that
// stops empties it. The kernel releases the lock however the daemon ends.
const lockName = "quotad.lock"

// lockStateDir locks the state directory for this daemon, until unlock. Kills are when a daemon began after another one
// was killed, since one was stopped.
func lockStateDir(dir string) (kills []time.Time, unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, nil, fmt.Errorf("cannot make state directory: %w", err)
	}
	file, err := openLock(dir, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot lock state directory: %w", err)
	}
	if kills, err = lock(file); err != nil {
		return nil, nil, fmt.Errorf("cannot lock state directory %q: %w", dir, errors.Join(err, file.Close()))
	}
	return kills, func() error { return errors.Join(file.Truncate(0), file.Close()) }, nil
}

// openLock opens the lock, unless every user of this host may put and replace files in the state
// directory, or the lock is a link to another file.
func openLock(dir string, flag int) (*os.File, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); mode.Perm()&0o002 != 0 {
		return nil, fmt.Errorf("everybody on this host may write to %q (mode %04o), and so replace the ledger: chmod o-w %s", dir, mode.Perm(), dir)
	}
	path := filepath.Join(dir, lockName)
	file, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW, 0o640)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%q is a symbolic link, and quotad would overwrite what it names: rm %s", path, path)
	}
	return file, err
}

// isLocked reports whether a daemon uses a state directory.
func isLocked(dir string) (bool, error) {
	file, err := openLock(dir, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot lock state directory: %w", err)
	}
	defer file.Close() // which unlocks it
	return errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK), nil
}

// lockTime is how long a lock may be held by a child that a killed daemon was about to execute:
// until then the child has the daemon's files.
const lockTime = time.Second

// killTime is for how long it counts that quotad was killed.
const killTime = 24 * time.Hour

// lock never removes the file: another daemon may have it open, and would then
// hold the lock of a file that no other daemon finds.
func lock(file *os.File) (kills []time.Time, err error) {
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	for begun := time.Now(); errors.Is(err, syscall.EWOULDBLOCK) && time.Since(begun) < lockTime; {
		time.Sleep(lockTime / 100)
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	const most = 1000 // kills
	text, _ := io.ReadAll(io.LimitReader(file, most*int64(len(time.RFC3339))))
	lines := strings.Fields(string(text))
	if errors.Is(err, syscall.EWOULDBLOCK) {
		user := ""
		if len(lines) > 0 { // else it has not written its pid yet
			user = ", pid " + lines[0]
		}
		return nil, fmt.Errorf("another quotad uses it%s: stop that one first, or give this one a state_dir of its own", user)
	}
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for _, line := range lines {
		if at, err := time.Parse(time.RFC3339, line); err == nil && now.Sub(at) < killTime {
			kills = append(kills, at)
		}
	}
	if len(lines) > 0 {
		kills = append(kills, now)
	}
	// The pid is for people: a full disk is no reason to go without the lock.
	_ = file.Truncate(0)
	content := fmt.Appendf(nil, "%d\n", os.Getpid())
	for _, at := range kills {
		content = at.AppendFormat(content, time.RFC3339+"\n")
	}
	_, _ = file.WriteAt(content, 0)
	return kills, nil
}
