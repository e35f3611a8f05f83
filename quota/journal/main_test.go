package journal

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quotad/jobs/process/processtest"
)

func TestMain(m *testing.M) { os.Exit(processtest.InMemory(m.Run).Run()) }

const credential = "youtube"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a journal that begins a new file at a number of bytes.
func open(t testing.TB, dir string, newFileAt int64) *Journal {
	t.Helper()
	j, err := Open(dir, credential, false)
	must(t, err)
	j.newFileAt = newFileAt
	return j
}

// numbered are entries whose time, id and text follow from a number.
func numbered(from, to int) (records []Record) {
	for n := from; n < to; n++ {
		records = append(records, Record{Own, int64(1000 + n), fmt.Sprintf("id-%d", n), fmt.Sprintf("text %d", n)})
	}
	return records
}

// written returns a directory with a journal of three files with 3, 3 and one entry.
func written(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	j := open(t, dir, 140)
	for n := range 7 {
		must(t, j.Append(numbered(n, n+1)...))
	}
	if len(j.files) != 3 {
		t.Fatalf("the journal has %d files", len(j.files))
	}
	must(t, j.Close())
	return dir
}

// entries returns all entries of a journal.
func entries(t testing.TB, j *Journal) (all []Record) {
	t.Helper()
	must(t, j.Read(math.MinInt64, func(r Record) error {
		all = append(all, r)
		return nil
	}))
	return all
}

func wantEntries(t testing.TB, j *Journal, want []Record) {
	t.Helper()
	if got := entries(t, j); !slices.Equal(got, want) {
		t.Fatalf("got entries\n%v\nwant\n%v", got, want)
	}
}

// files returns the contents of all files below a directory, by their paths.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir+"/")] = string(text)
		return err
	}))
	return all
}

// put writes files to a new directory.
func put(t testing.TB, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for path, text := range files {
		path = filepath.Join(dir, path)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}
