package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lockName is the file whose lock shows that a daemon uses the state directory.
// It holds the daemon's pid, for people. The kernel releases the lock however
// the daemon ends.
const lockName = "quotad.lock"

// lockStateDir locks the state directory for this daemon, until unlock.
func lockStateDir(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("cannot make state directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("cannot lock state directory: %w", err)
	}
	if err := lock(file); err != nil {
		return nil, fmt.Errorf("cannot lock state directory %q: %w", dir, errors.Join(err, file.Close()))
	}
	return file.Close, nil
}

// lock never removes the file: another daemon may have it open, and would then
// hold the lock of a file that no other daemon finds.
func lock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		user := ""
		if pid, _ := io.ReadAll(io.LimitReader(file, 20)); len(pid) > 0 { // else it has not written its pid yet
			user = ", pid " + strings.TrimSpace(string(pid))
		}
		return fmt.Errorf("another quotad uses it%s: stop that one first, or give this one a state_dir of its own", user)
	}
	if err != nil {
		return err
	}
	// The pid is for people: a full disk is no reason to go without the lock.
	_ = file.Truncate(0)
	_, _ = fmt.Fprintf(file, "%d\n", os.Getpid())
	return nil
}
