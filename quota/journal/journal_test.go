package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
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
			r := Record{kind, int64(random.Uint64()), fmt.Sprint(round, n) + anyBytes(n*7), anyBytes(n * 3)}
			must(t, j.Append(r, Record{kind, r.At, r.ID, "the same id"}))
			want = append(want, r)
		}
		must(t, j.Append(want...)) // again, all of them
		for _, r := range want {
			if !j.Has(r.ID) {
				t.Errorf("id %q is not known", r.ID)
			}
		}
		if j.Has("other") || j.Has("") {
			t.Error("an id is known that nobody has written")
		}
		wantEntries(t, j, want)
		must(t, j.Close())
		if err := j.Append(Record{Own, 1, "late", ""}); !errors.Is(err, os.ErrClosed) {
			t.Errorf("an Append after Close: %v", err)
		}
	}
	j := open(t, dir, 2000)
	after := want[60].At
	var newer []Record
	must(t, j.Read(after, func(r Record) error { newer = append(newer, r); return nil }))
	if older := func(r Record) bool { return r.At <= after }; !slices.Equal(newer, slices.DeleteFunc(want, older)) {
		t.Errorf("Read after %d returns other entries than those", after)
	}
	stop := errors.New("stop")
	if err := j.Read(0, func(Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Read returns %v, not what its function returned", err)
	}
	for _, id := range []string{"", strings.Repeat("x", 301)} {
		if err := j.Append(Record{Own, 1, id, ""}); err == nil {
			t.Errorf("an id of %d bytes is written", len(id))
		}
	}
	if err := j.Append(Record{began, 1, "id", ""}); err == nil {
		t.Error("a start is written as an entry")
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

// A start that finds no clean stop is counted.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	for n, clean := range []bool{true, false, true, false, false, true} {
		j := open(t, dir, 200)
		must(t, j.Append(numbered(n, n+1)...))
		if want := []int{0, 0, 1, 1, 2, 3}[n]; j.Killed() != want {
			t.Errorf("start %d: %d starts found no clean stop, want %d", n, j.Killed(), want)
		}
		if clean {
			must(t, j.Close())
		}
	}
}

// Whole files leave, the oldest first, and never the one being written.
func TestDrop(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, 300)
	for n := range 100 {
		must(t, j.Append(numbered(n, n+1)...))
	}
	must(t, j.Sync())
	must(t, j.Drop(1050))
	kept := entries(t, j)
	if first := kept[0].At; first > 1050 || first < 1040 || !slices.Equal(kept, numbered(int(first-1000), 100)) {
		t.Fatalf("entries from %d on are kept", kept[0].At)
	}
	if first := int(kept[0].At) - 1000; j.Has(fmt.Sprintf("id-%d", first-1)) || !j.Has(fmt.Sprintf("id-%d", first)) {
		t.Error("the known ids are not those of the files that are kept")
	}
	must(t, j.current.Close()) // as a kill does
	j = open(t, dir, 300)
	wantEntries(t, j, kept)
	must(t, j.Drop(5000))
	if n := len(files(t, dir)); n != 2 {
		t.Errorf("%d files are left, want the position and the one being written", n)
	}
	must(t, j.Append(numbered(100, 101)...))
	must(t, j.Close())
	if j = open(t, dir, 300); !j.Has("id-100") || j.Killed() > 1 {
		t.Errorf("after Drop, an entry is lost, or %d starts found no clean stop", j.Killed())
	}
}

// A Read that goes on while files are dropped returns what is left.
func TestReadDuringDrop(t *testing.T) {
	j := open(t, t.TempDir(), 300)
	for n := range 50 {
		must(t, j.Append(numbered(n, n+1)...))
	}
	var got []Record
	must(t, j.Read(0, func(r Record) error {
		got = append(got, r)
		return j.Drop(5000)
	}))
	first, last := j.files[0].number, len(got)-len(entries(t, j))
	if first < 3 || !slices.Equal(got[:last], numbered(0, last)) || !slices.Equal(got[last:], entries(t, j)) {
		t.Errorf("files before number %d are dropped, and read is %v", first, got)
	}
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
			if err := j.Append(numbered(n+1, n+2)...); err != nil {
				t.Error(err)
			}
			appended.Done()
			if err := j.Sync(); err != nil {
				t.Error(err)
			}
			if j.Has("other") || !j.Has(fmt.Sprintf("id-%d", n+1)) {
				t.Error("an id is wrong")
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
		if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), dir) {
			t.Fatalf("an Append without room: %v", err)
		}
		if j.Has("id-3") {
			t.Error("an id is known of an entry that was not written")
		}
	}
	if info, err := j.current.Stat(); err != nil || info.Size() <= size {
		t.Errorf("the failed write left nothing behind: %v", err)
	}
	must(t, j.Append(numbered(3, 4)...))
	if info, err := j.current.Stat(); err != nil || info.Size() != j.files[0].size {
		t.Errorf("the file is not cut: %v", err)
	}
	limitFiles(t, 1<<40)
	must(t, j.Append(numbered(4, 10)...))
	wantEntries(t, j, numbered(0, 10))
	must(t, j.Close())
	if j = open(t, dir, 1<<20); j.Cut() != "" {
		t.Error(j.Cut())
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
	wantEntries(t, j, numbered(0, 6))
	wantEntries(t, open(t, put(t, files(t, dir)), 1<<20), numbered(0, 6))
}

// Killed while several callers append: each entry that was acknowledged is there, and no other one but the last ones.
func TestKilledWhileItAppends(t *testing.T) {
	const child, callers = "QUOTAD_CHILD_JOURNAL", 4
	if of := os.Getenv(child); of != "" {
		j := open(t, of[1:], 4000)
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				for n := 0; ; n++ {
					id := fmt.Sprintf("%s-%d-%d", of[:1], caller, n)
					if err := errors.Join(j.Append(Record{Own, 1, id, "text"}), j.Sync()); err != nil {
						id = err.Error()
					}
					os.Stdout.WriteString(id + "\n")
				}
			})
		}
		all.Wait()
	}
	dir := t.TempDir()
	acknowledged := make(map[string]bool)
	for round := range 4 {
		command := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		command.Env = append(os.Environ(), child+"="+fmt.Sprint(round)+dir)
		out, err := command.StdoutPipe()
		must(t, err)
		must(t, command.Start())
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if acknowledged[lines.Text()] = true; n == 300 {
				must(t, command.Process.Kill())
			}
		}
		command.Wait()
		j := open(t, dir, 4000)
		for id := range acknowledged {
			if !j.Has(id) {
				t.Fatalf("%q was acknowledged, and is not there", id)
			}
		}
		if got, most := len(entries(t, j)), len(acknowledged)+(round+1)*callers; got > most {
			t.Errorf("%d entries, of which %d were acknowledged", got, len(acknowledged))
		}
		if j.Killed() != round+1 {
			t.Errorf("%d starts found no clean stop, want %d", j.Killed(), round+1)
		}
		must(t, j.Close())
	}
}

// The position is written again after a minute, and not with each Sync.
func TestPositionFollows(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, 1<<20)
	path := filepath.Join(dir, credential+".position")
	at := func() string { text, err := os.ReadFile(path); must(t, err); return string(text) }
	was := at()
	must(t, errors.Join(j.Append(numbered(0, 1)...), j.Sync()))
	if at() != was {
		t.Error("it is written with each Sync")
	}
	j.positioned = j.positioned.Add(-2 * time.Minute)
	must(t, errors.Join(j.Append(numbered(1, 2)...), j.Sync()))
	if at() == was {
		t.Error("it is not written after a minute")
	}
}
