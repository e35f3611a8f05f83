package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A state directory is one daemon's, until that ends.
func TestOneDaemonForAState(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	is := func(want bool) {
		t.Helper()
		if used, err := isLocked(dir); used != want || err != nil {
			t.Errorf("it is in use: %v, %v, want %v", used, err, want)
		}
	}
	is(false)
	_, unlock, err := lockStateDir(dir)
	must(t, err)
	want := fmt.Sprintf("another quotad uses it, pid %d: stop that one first", os.Getpid())
	if _, _, err := lockStateDir(dir); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a second daemon: got %v, want %s", err, want)
	}
	is(true)
	must(t, unlock())
	eventually(t, func() bool { // a child of another test may have the file until it executes
		used, err := isLocked(dir)
		return !used && err == nil
	})
	// One that was killed leaves what the next one counts; one that is stopped leaves nothing.
	for want := range 3 {
		var kills []time.Time
		if kills, unlock, err = lockStateDir(dir); err != nil || len(kills) != want {
			t.Fatalf("%d kills, %v, want %d", len(kills), err, want)
		}
		left, err := os.ReadFile(filepath.Join(dir, lockName))
		must(t, errors.Join(err, unlock()))
		must(t, os.WriteFile(filepath.Join(dir, lockName), left, 0o640))
	}
	// A kill counts for a day.
	for ago, want := range map[time.Duration]int{killTime - time.Minute: 2, killTime + time.Minute: 1} {
		text := fmt.Sprintf("1\n%s\n", time.Now().Add(-ago).Format(time.RFC3339))
		must(t, os.WriteFile(filepath.Join(dir, lockName), []byte(text), 0o640))
		kills, unlock, err := lockStateDir(dir)
		if must(t, err); len(kills) != want {
			t.Errorf("%d kills with one %v ago, want %d", len(kills), ago, want)
		}
		must(t, unlock())
	}
	_, unlock, err = lockStateDir(dir)
	must(t, errors.Join(err, unlock()))
	if kills, _, err := lockStateDir(dir); err != nil || len(kills) > 0 {
		t.Errorf("%d kills after a stop, %v", len(kills), err)
	}
}

// A state that every user of the host may replace, and a lock that is a link, are refused.
func TestStateThatOthersReplace(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		spoil func(dir string) error
		says  string
	}{
		{"mode 777", func(dir string) error { return os.Chmod(dir, 0o777) }, "everybody on this host may write to "},
		{"with the sticky bit", func(dir string) error { return os.Chmod(dir, 0o777|os.ModeSticky) }, "everybody on this host may write to "},
		{"the lock is a link", func(dir string) error { return os.Symlink(dir+"/precious", filepath.Join(dir, lockName)) }, "is a symbolic link"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, row.spoil(dir))
			if _, _, err := lockStateDir(dir); err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want %q", err, row.says)
			}
			if entries, _ := os.ReadDir(dir); len(entries) > 1 {
				t.Errorf("it made %v", entries)
			}
		})
	}
}
