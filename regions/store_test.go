package regions

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

type document struct {
	Cursor Cursor
	Note   string
}

func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStoreKeepsDocuments(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "jobs")
	s := openStore(t, dir)
	var got document
	if found, err := s.Load("trending", &got); found || err != nil {
		t.Fatalf("before saving: got %v, %v, want nothing", found, err)
	}
	for _, cursor := range []Cursor{"US", "BR"} {
		if err := s.Save("trending", document{Cursor: cursor}); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := s.Names(); err != nil || len(names) != 1 || names[0] != "trending" {
		t.Errorf("got the names %q, %v, want trending", names, err)
	}
	found, err := openStore(t, dir).Load("trending", &got)
	if !found || err != nil || got.Cursor != "BR" {
		t.Errorf("after reopening: got %+v, %v, %v, want the cursor at BR", got, found, err)
	}
}

func TestStoreFailsWithoutLosingTheOld(t *testing.T) {
	s := openStore(t, t.TempDir())
	if err := s.Save("trending", document{Cursor: "US"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Save("trending", make(chan int)); err == nil {
		t.Error("a document that cannot be encoded was saved")
	}
	var got document
	if found, err := s.Load("trending", &got); !found || err != nil || got.Cursor != "US" {
		t.Errorf("got %+v, %v, %v, want the old document", got, found, err)
	}
}

func TestStoreLeavesNothingBehindWhenItFails(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	if err := os.Mkdir(s.Path("trending"), 0o700); err != nil { // nothing can be renamed over it
		t.Fatal(err)
	}
	if err := s.Save("trending", document{Cursor: "US"}); err == nil {
		t.Error("got no error")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want the directory alone", entries, err)
	}
}

func TestStoreNamesTheFileItCannotUnderstand(t *testing.T) {
	s := openStore(t, t.TempDir())
	if err := os.WriteFile(s.Path("trending"), []byte(`{"Cursor":`), 0o600); err != nil {
		t.Fatal(err)
	}
	var got document
	_, err := s.Load("trending", &got)
	if err == nil || !strings.Contains(err.Error(), s.Path("trending")) || !strings.Contains(err.Error(), "move the file away") {
		t.Errorf("got %v, want an error that names the file and the cure", err)
	}
}

func TestStoreRemovesUnfinishedFiles(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "trending.json.123"+unfinished)
	if err := os.WriteFile(left, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	openStore(t, dir)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", left, err)
	}
}

func TestStoreDirectoryCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(filepath.Join(file, "jobs")); err == nil {
		t.Error("got no error for a directory below a file")
	}
}

// Readers see a whole document at every moment, and nothing is left behind.
func TestStoreSavesAtomically(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	long := document{Note: strings.Repeat("x", 100_000)}
	if err := s.Save("trending", long); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range 10 {
				if err := s.Save("trending", long); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 50 {
		var got document
		if found, err := s.Load("trending", &got); !found || err != nil || got != long {
			t.Fatalf("read a document that nobody saved: %d bytes, %v, %v", len(got.Note), found, err)
		}
	}
	writers.Wait()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want one file", entries, err)
	}
}
