package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestAppendLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines")
	for _, row := range []struct{ name, has, want string }{
		{"nothing", "", "new\n"},
		{"whole lines", "one\ntwo\n", "one\ntwo\nnew\n"},
		{"a part of a line", "one\ntw", "one\nnew\n"},
		{"a part that is longer than what comes", "one\n" + strings.Repeat("x", 100_000), "one\nnew\n"},
		{"a part alone", "on", "new\n"},
	} {
		must(t, os.WriteFile(path, []byte(row.has), 0o600))
		if err := appendLines(path, []byte("new\n")); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		if got, _ := os.ReadFile(path); string(got) != row.want {
			t.Errorf("%s: got %.200q, want %q", row.name, got, row.want)
		}
	}
}

// Who appends waits until no other process appends: each opens the file for itself.
func TestAppendsWaitForEachOther(t *testing.T) {
	path, text := filepath.Join(t.TempDir(), "lines"), strings.Repeat("x", 20_000)+"\n"
	var appending sync.WaitGroup
	for range 8 {
		appending.Go(func() {
			for range 30 {
				if err := appendLines(path, []byte(text)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	appending.Wait()
	got, err := os.ReadFile(path)
	if must(t, err); string(got) != strings.Repeat(text, 240) {
		t.Errorf("got %d bytes, want the %d of all", len(got), 240*len(text))
	}
}

// A full disk, as a limit of the file's size has it, leaves what was there.
func TestFullDiskLeavesNoPartOfALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines")
	must(t, os.WriteFile(path, []byte("one\n"), 0o600))
	var before syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	limit := before
	limit.Cur = 10_000
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	err := appendLines(path, []byte(strings.Repeat("x", 20_000)+"\n"))
	if undo := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); undo != nil {
		t.Fatal(undo)
	}
	if got, _ := os.ReadFile(path); err == nil || string(got) != "one\n" {
		t.Errorf("got %v and %d bytes, want an error and the line that was there", err, len(got))
	}
}

// must ends a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
