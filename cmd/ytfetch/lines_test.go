package main

import (
	"os"
	"path/filepath"
	"strings"
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
		if err := os.WriteFile(path, []byte(row.has), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := appendLines(path, []byte("new\n")); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		if got, _ := os.ReadFile(path); string(got) != row.want {
			t.Errorf("%s: got %.200q, want %q", row.name, got, row.want)
		}
	}
}

// A full disk, as a limit of the file's size has it, leaves what was there.
func TestFullDiskLeavesNoPartOfALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(path, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limit := before
	limit.Cur = 10_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	err := appendLines(path, []byte(strings.Repeat("x", 20_000)+"\n"))
	if undo := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); undo != nil {
		t.Fatal(undo)
	}
	if got, _ := os.ReadFile(path); err == nil || string(got) != "one\n" {
		t.Errorf("got %v and %d bytes, want an error and the line that was there", err, len(got))
	}
}
