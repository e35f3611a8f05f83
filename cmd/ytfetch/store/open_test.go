package store

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// openEnv names the directory that a process which this test starts opens. In any other
// process it is unset.
const openEnv = "YTFETCH_TEST_OPEN"

// A process of TestProcessesThatOpenANewFileTogether.
func TestOpenInAProcess(t *testing.T) {
	dir := os.Getenv(openEnv)
	if dir == "" {
		t.Skip("another test starts it")
	}
	os.NewFile(3, "ready").Close()
	_, _ = io.Copy(io.Discard, os.Stdin) // until all processes are ready
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Unknown(nil); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// The first jobs of a newcomer begin at the same instant, in the same new directory.
func TestProcessesThatOpenANewFileTogether(t *testing.T) {
	for range 10 {
		openTogether(t, filepath.Join(t.TempDir(), "new"))
	}
}

func openTogether(t *testing.T, dir string) {
	t.Helper()
	wait, start := pipe(t)
	allReady, ready := pipe(t)
	outputs := make(map[*exec.Cmd]*strings.Builder)
	for range 6 {
		cmd, out := exec.Command(os.Args[0], "-test.run=^TestOpenInAProcess$"), &strings.Builder{}
		cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(os.Environ(), openEnv+"="+dir), wait, out, out
		cmd.ExtraFiles = []*os.File{ready}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		outputs[cmd] = out
	}
	ready.Close()
	_, _ = io.Copy(io.Discard, allReady)
	start.Close()
	for cmd, out := range outputs {
		if err := cmd.Wait(); err != nil {
			t.Errorf("a process cannot open the file: %v\n%s", err, out)
		}
	}
}

func pipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		read.Close()
		write.Close()
	})
	return read, write
}

// The last process that closes the file locks it for a moment, and so does the first one
// that opens it after a kill. A process that opens it then waits, in its first read too.
func TestOpenWaitsForOneThatHasTheFile(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite3.OpenFlags(filepath.Join(dir, FileName), sqlite3.OPEN_READWRITE)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Exec("PRAGMA locking_mode = exclusive; PRAGMA user_version"); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error)
	go func() {
		s, err := Open(dir)
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("opened at once, with error %v, want it to wait", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
}
