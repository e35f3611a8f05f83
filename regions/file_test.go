package regions

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

func TestWriteFileFailsWithoutLeavingAnything(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "trending.runs")
	if err := os.Mkdir(path, 0o700); err != nil { // nothing can be renamed over it
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("US"), 0o600); err == nil {
		t.Error("got no error")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want the directory alone", entries, err)
	}
}

// What others may read is the user's to say, by the umask.
func TestWriteFileRespectsTheUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	path := filepath.Join(t.TempDir(), "page")
	for mode, want := range map[os.FileMode]os.FileMode{0o644: 0o640, 0o600: 0o600} {
		if err := WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("mode %v: got %v, %v, want %v", mode, info.Mode(), err, want)
		}
	}
}

func TestCleanUp(t *testing.T) {
	dir := t.TempDir()
	left, kept := filepath.Join(dir, "trending.runs.123"+unfinished), filepath.Join(dir, "trending.runs")
	for _, path := range []string{left, kept} {
		if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := CleanUp(dir); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != "trending.runs" {
		t.Errorf("got %v, %v, want what is whole", entries, err)
	}
}

// Readers see a whole file at every moment, and nothing is left behind.
func TestWriteFileIsAtomic(t *testing.T) {
	dir := t.TempDir()
	path, long := filepath.Join(dir, "trending.runs"), bytes.Repeat([]byte("x"), 100_000)
	if err := WriteFile(path, long, 0o600); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range 10 {
				if err := WriteFile(path, long, 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 50 {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, long) {
			t.Fatalf("read a file that nobody wrote: %d bytes, %v", len(got), err)
		}
	}
	writers.Wait()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want one file", entries, err)
	}
}
