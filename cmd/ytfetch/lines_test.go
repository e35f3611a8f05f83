package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
		must(t, os.WriteFile(path, []byte(row.has), 0o600))
		if err := appendLines(path, []byte("new\n")); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		if got, _ := os.ReadFile(path); string(got) != row.want {
			t.Errorf("%s: got %.200q, want %q", row.name, got, row.want)
		}
	}
}

// Who appends waits until no other process appends, as /proc/locks shows it.
func TestAppendsWaitForEachOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines")
	other, err := os.Create(path)
	if err == nil {
		err = syscall.Flock(int(other.Fd()), syscall.LOCK_SH)
	}
	must(t, err)
	defer other.Close()
	var stat syscall.Stat_t
	must(t, syscall.Fstat(int(other.Fd()), &stat))
	done := make(chan error, 1)
	go func() { done <- appendLines(path, []byte("new\n")) }()
	waits := regexp.MustCompile(fmt.Sprintf(`-> FLOCK .*:%d `, stat.Ino))
	for locks := []byte(nil); !waits.Match(locks); {
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		default:
			if locks, err = os.ReadFile("/proc/locks"); err != nil {
				t.Skip(err)
			}
		}
	}
	if _, err := other.WriteString("other\n"); err != nil {
		t.Fatal(err)
	}
	other.Close()
	must(t, <-done)
	if got, _ := os.ReadFile(path); string(got) != "other\nnew\n" {
		t.Errorf("got %q, want the lines of both", got)
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
