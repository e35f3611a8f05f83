package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// What is appended is read, by this Journal and by the next one, in as many files as it takes.
func TestRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	anyBytes := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return string(b)
	}
	dir := t.TempDir()
	var want []Record
	for round := range 5 {
		j := open(t, dir, 2000)
		wantEntries(t, j, want)
		for n := range 40 {
			kind := []Kind{Own, Alone, Mirrored}[n%3]
			want = append(want, Record{kind, int64(random.Uint64()), fmt.Sprint(round, n) + anyBytes(n*7), anyBytes(n * 3)})
			must(t, j.Append(want[len(want)-1]))
		}
		must(t, j.Append(want...)) // again, all of them
		wantEntries(t, j, want)
		must(t, j.Close())
	}
	j := open(t, dir, 2000)
	after := want[60].At
	var newer []Record
	must(t, j.Read(after, func(r Record) error { newer = append(newer, r); return nil }))
	if older := func(r Record) bool { return r.At <= after }; !slices.Equal(newer, slices.DeleteFunc(want, older)) {
		t.Errorf("Read after %d returns other entries than those", after)
	}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		must(t, err)
		info, err := d.Info()
		if must(t, err); path != dir && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return nil
	}))
}

// Whole files leave, the oldest first, and never the one being written. A Read that goes on returns what is left.
func TestDrop(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, 300)
	for n := range 100 {
		must(t, j.Append(numbered(n, n+1)...))
	}
	must(t, j.Sync())
	must(t, j.Drop(1050))
	kept := entries(t, j)
	first := int(kept[0].At) - 1000
	if first > 50 || first < 40 || !slices.Equal(kept, numbered(first, 100)) {
		t.Fatalf("entries from %d on are kept", first)
	}
	if j.Has(fmt.Sprintf("id-%d", first-1), 0) || !j.Has(fmt.Sprintf("id-%d", first), 0) {
		t.Error("the known ids are not those of the files that are kept")
	}
	must(t, j.current.Close()) // as a kill does
	j = open(t, dir, 300)
	wantEntries(t, j, kept)
	var got []Record
	must(t, j.Read(0, func(r Record) error {
		got = append(got, r)
		return j.Drop(5000)
	}))
	left := entries(t, j)
	if n := len(got) - len(left); n < 1 || !slices.Equal(got[:n], kept[:n]) || !slices.Equal(got[n:], left) {
		t.Errorf("while files leave, read is %v", got)
	}
	if n := len(files(t, dir)); n != 2 {
		t.Errorf("%d files are left, want the position and the one being written", n)
	}
	must(t, j.Append(numbered(100, 101)...))
	must(t, j.Close())
	wantEntries(t, open(t, dir, 300), append(left, numbered(100, 101)...))
}

// Those who call Sync while another one syncs wait for the next sync, which is one for all of them.
func TestSyncInGroups(t *testing.T) {
	j := open(t, t.TempDir(), 1<<20)
	began, release, syncs := make(chan bool), make(chan bool), 0 // syncs: with disk held
	j.fdatasync = func(f *os.File) error {
		if syncs++; syncs == 1 {
			began <- true
			<-release
		}
		return syscall.Fdatasync(int(f.Fd()))
	}
	must(t, j.Append(numbered(0, 1)...))
	first := make(chan error)
	go func() { first <- j.Sync() }()
	<-began
	var appended, synced sync.WaitGroup
	for n := range 64 {
		appended.Add(1)
		synced.Go(func() {
			err := j.Append(numbered(n+1, n+2)...)
			appended.Done()
			if err = errors.Join(err, j.Sync()); err != nil || !j.Has(fmt.Sprintf("id-%d", n+1), 0) {
				t.Errorf("an entry is not there: %v", err)
			}
		})
	}
	appended.Wait() // no Append waits for the sync
	if got := j.synced.Load(); got >= j.written.Load() {
		t.Errorf("%d bytes are synced before the sync has ended", got)
	}
	release <- true
	must(t, <-first)
	synced.Wait()
	must(t, j.Sync())
	if syncs != 2 {
		t.Errorf("%d syncs, want 2", syncs)
	}
}

// After a failed write, the file is cut behind its last whole record, and the next Append is as if it had not been.
func TestFailedWrite(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, 1<<20)
	must(t, j.Append(numbered(0, 3)...))
	size := j.files[0].size
	limitFiles(t, uint64(size+40)) // the next record fits, but not two
	for range 2 {
		err := j.Append(numbered(3, 20)...)
		if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), dir) || j.Has("id-3", 0) {
			t.Fatalf("an Append without room: %v", err)
		}
	}
	if info, err := j.current.Stat(); err != nil || info.Size() <= size {
		t.Errorf("the failed write left nothing behind: %v", err)
	}
	must(t, j.Append(numbered(3, 4)...))
	if info, err := j.current.Stat(); err != nil || info.Size() != j.files[0].size {
		t.Errorf("what the failed write left is still there: %v", err)
	}
	limitFiles(t, 1<<40)
	must(t, j.Append(numbered(4, 10)...))
	wantEntries(t, j, numbered(0, 10))
	must(t, j.Close())
	if j = open(t, dir, 1<<20); j.Cut != "" {
		t.Error(j.Cut)
	}
	wantEntries(t, j, numbered(0, 10))
}

// limitFiles sets how large files may become until the test ends.
func limitFiles(t *testing.T, size uint64) {
	t.Helper()
	var was syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: min(size, was.Max), Max: was.Max}))
	t.Cleanup(func() { must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was)) })
}

// After a failed sync nothing is promised until the records since the last good one are written and synced again. The
// kernel may have lost them meanwhile.
func TestFailedSync(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, 1<<20)
	must(t, j.Append(numbered(0, 3)...))
	must(t, j.Sync())
	durable := j.files[0].size
	failing, broken := true, fmt.Errorf("broken: %w", syscall.EIO)
	j.fdatasync = func(f *os.File) error {
		if !failing {
			return syscall.Fdatasync(int(f.Fd()))
		}
		info, err := f.Stat()
		must(t, err)
		_, err = f.WriteAt(make([]byte, info.Size()-durable), durable) // the pages are gone
		return errors.Join(broken, err)
	}
	must(t, j.Append(numbered(3, 5)...))
	for range 2 {
		if err := j.Sync(); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), dir) {
			t.Fatalf("a Sync that failed: %v", err)
		}
		if err := j.Append(numbered(5, 6)...); !errors.Is(err, syscall.EIO) {
			t.Fatalf("an Append after it: %v", err)
		}
	}
	failing = false
	must(t, j.Append(numbered(5, 6)...))
	must(t, j.Sync())
	wantEntries(t, open(t, put(t, files(t, dir)), 1<<20), numbered(0, 6))
}
