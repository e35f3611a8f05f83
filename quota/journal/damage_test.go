package journal

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const (
	file1    = credential + "/00000001"
	file2    = credential + "/00000002"
	file3    = credential + "/00000003"
	position = credential + ".position"
)

// A kill or a power failure may cut the last file anywhere after what was synced. Open keeps the whole records, reports
// what it cuts, and goes on there. A file that lacks what was synced is refused.
func TestCutAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, 1<<20)
	must(t, j.Append(numbered(0, 2)...))
	must(t, j.Sync())
	must(t, j.Append(numbered(2, 3)...))
	must(t, j.Close())
	closed := files(t, dir)
	closed[file1] = closed[file1][:strings.LastIndex(strings.TrimSuffix(closed[file1], "\n"), "\n")+1]
	older := put(t, closed)
	_, err := Open(older, credential, false)
	wantRefusal(t, "without the last line before Close", older, err)
	j = open(t, dir, 1<<20)
	synced := int(j.files[0].size)
	written := append(numbered(0, 6), Record{Own, 1999, "longer than the next one", strings.Repeat("x", 40)})
	must(t, j.Append(written[3:]...))
	all := files(t, dir)
	text := all[file1]
	for size := range len(text) + 1 {
		all[file1] = text[:size]
		dir := put(t, all)
		j, err := Open(dir, credential, false)
		if size < synced {
			wantRefusal(t, fmt.Sprint("at byte ", size), dir, err)
			continue
		}
		must(t, err)
		cut, whole := size-1-strings.LastIndex(text[:size], "\n"), strings.Count(text[:size], "\n")-1
		wantEntries(t, j, written[:whole])
		if says := fmt.Sprintf("%s/%s was cut at byte %d of %d", dir, file1, size-cut, size); cut > 0 !=
			strings.HasPrefix(j.Cut, says) || cut == 0 && j.Cut != "" {
			t.Errorf("%d bytes of %d: Cut is %q", cut, size, j.Cut)
		}
		must(t, j.Append(numbered(6, 7)...))
		must(t, j.Close())
		j = open(t, dir, 1<<20)
		wantEntries(t, j, append(slices.Clone(written[:whole]), numbered(6, 7)...))
		if j.Cut != "" {
			t.Errorf("the next start has cut, too: %s", j.Cut)
		}
	}
}

// wantRefusal wants an error that names the directory and the cure.
func wantRefusal(t *testing.T, what, dir string, err error) {
	t.Helper()
	if !errors.As(err, new(*Refused)) {
		t.Fatalf("%s: Open returns %v", what, err)
	}
	for _, part := range []string{dir, "restore it", "--accept-new-ledger", credential} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %q lacks %q", what, err, part)
		}
	}
}

// A flipped bit of any byte is refused, in the position too.
func TestEachByte(t *testing.T) {
	all := files(t, written(t))
	for path, text := range all {
		for at := range text {
			flipped := []byte(text)
			flipped[at] ^= 1 << (at % 8)
			changed := maps.Clone(all)
			changed[path] = string(flipped)
			dir := put(t, changed)
			_, err := Open(dir, credential, false)
			wantRefusal(t, fmt.Sprintf("byte %d of %s", at, path), dir, err)
		}
	}
}

// What is not the journal that was here is refused, with a reason. Accept sets it aside and begins an empty one.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	must(t, open(t, dir, 140).current.Close())
	older := files(t, dir)
	j := open(t, dir, 140)
	for n := range 7 {
		must(t, j.Append(numbered(n, n+1)...))
	}
	must(t, errors.Join(j.Sync(), j.current.Close()))
	whole, other := files(t, dir), files(t, written(t))
	lines := strings.SplitAfter(whole[file2], "\n")
	line := func(r Record) string {
		text, _ := r.appendLine(nil, 0)
		return string(text)
	}
	for _, row := range []struct {
		name   string
		change []string // a path and its content, "-" to remove it, and so on
		says   string   // "": Open accepts it
	}{
		{"a file that was not put in place", []string{file3 + ".new", "x", position + ".new", ""}, ""},
		{"an older position", []string{position, older[position]}, ""},
		{"a line removed", []string{file2, lines[0] + lines[2] + lines[3]}, "2 is damaged at byte"},
		{"two lines swapped", []string{file2, lines[0] + lines[2] + lines[1] + lines[3]}, "2 is damaged at byte"},
		{"a line twice", []string{file2, lines[0] + lines[1] + lines[1] + lines[2]}, "2 is damaged at byte"},
		{"no header", []string{file2, lines[1] + lines[2] + lines[3]}, "2 is damaged at byte 0"},
		{"a file without its last line", []string{file2, lines[0] + lines[1]}, "3 is damaged at byte 0"},
		{"a file without its last byte", []string{file2, strings.TrimSuffix(whole[file2], "\n")}, "has no end"},
		{"the last byte changed", []string{file3, strings.TrimSuffix(whole[file3], "\n") + "\v", position, older[position]},
			"this line has no end"},
		{"a torn line, and a file follows", []string{file2, whole[file2] + "o 1"}, "but a file follows"},
		{"a file missing", []string{file2, "-"}, "2 is damaged at byte 0: the file is missing"},
		{"two files swapped", []string{file2, whole[file3], file3, whole[file2]}, "2 is damaged at byte 0"},
		{"an empty file", []string{file3, ""}, "3 is damaged at byte 0: this line has no end"},
		{"a file of another journal", []string{file3, other[file3]}, "3 is damaged at byte 0: it is of another"},
		{"of another credential", []string{file1, line(Record{header, 1, "maps", "1 X 0"})}, "of another journal"},
		{"a line that is no record", []string{file3, whole[file3] + "o\n"}, "3 is damaged at byte"},
		{"another journal", []string{file1, other[file1], file2, other[file2], file3, other[file3]}, "is not"},
		{"a position of another journal", []string{position, other[position]}, "is not the journal that was"},
		{"an empty position", []string{position, ""}, "is not the journal that was here"},
		{"no position", []string{position, "-"}, "has no position"},
		{"no journal", []string{file1, "-", file2, "-", file3, "-"}, "is missing"},
		{"an older journal", []string{file1, older[file1], file2, "-", file3, "-"}, "is older than it was"},
		{"the last file missing", []string{file3, "-"}, "is older than it was"},
		{"another version", []string{file1, line(Record{header, 1, credential, "2 X"})}, "has format 2, not 1"},
		{"its position", []string{position, line(Record{header, 1, credential, "2 X"})}, "has format 2, not 1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			all := maps.Clone(whole)
			for i := 0; i < len(row.change); i += 2 {
				if all[row.change[i]] = row.change[i+1]; row.change[i+1] == "-" {
					delete(all, row.change[i])
				}
			}
			dir := put(t, all)
			j, err := Open(dir, credential, false)
			if row.says == "" {
				must(t, err)
				wantEntries(t, j, numbered(0, 7))
				return
			}
			if wantRefusal(t, row.name, dir, err); !strings.Contains(err.Error(), row.says) {
				t.Errorf("Open returns %v", err)
			}
			if !maps.Equal(files(t, dir), all) {
				t.Error("what is refused was changed")
			}
			wantAccepted(t, dir, row.says, all)
		})
	}
}

// wantAccepted wants an empty journal, and the files of before aside.
func wantAccepted(t *testing.T, dir, says string, before map[string]string) {
	t.Helper()
	for n := range 2 { // a second start has nothing to accept
		j, err := Open(dir, credential, true)
		must(t, err)
		wantEntries(t, j, numbered(0, n))
		if says := n == 0 && !strings.Contains(j.Cut, says); says || (n == 0) != strings.Contains(j.Cut, ".aside-") {
			t.Errorf("start %d: Cut is %q", n, j.Cut)
		}
		must(t, errors.Join(j.Append(numbered(0, 1)...), j.Close()))
	}
	after, digits := map[string]string{}, regexp.MustCompile(`aside-\d+`)
	for path, text := range files(t, dir) {
		after[digits.ReplaceAllString(path, "aside-N")] = text
	}
	for path, text := range before {
		aside := strings.Replace(path, credential, credential+".aside-N", 1)
		if got, ok := after[aside]; !ok && !strings.HasSuffix(path, "position.new") || ok && got != text {
			t.Errorf("%s is not aside as it was", path)
		}
	}
}

// A first start that was killed before it wrote a position is not refused, nor one that finds nothing but its directory.
func TestKilledFirstStart(t *testing.T) {
	dir := t.TempDir()
	must(t, open(t, dir, 1<<20).current.Close())
	must(t, os.Remove(filepath.Join(dir, position)))
	wantEntries(t, open(t, dir, 1<<20), nil)
	must(t, os.Symlink("/dev/full", filepath.Join(dir, position+".new")))
	wantEntries(t, open(t, dir, 1<<20), nil) // with the position of before
	must(t, os.Remove(filepath.Join(dir, position)))
	if _, err := Open(dir, credential, false); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a journal without a position, which the disk does not take: %v", err)
	}
	dir = t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, credential), 0o700))
	wantEntries(t, open(t, dir, 1<<20), nil)
	must(t, os.WriteFile(filepath.Join(dir, "maps"), nil, 0o600))
	if _, err := Open(dir, "maps", true); err == nil || !strings.Contains(err.Error(), dir+"/maps") {
		t.Errorf("a journal whose directory is a file: %v", err)
	}
}

// A file that is damaged while the journal is open is noticed when it is read.
func TestReadFindsDamage(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, 1<<20)
	must(t, j.Append(numbered(0, 3)...))
	path := filepath.Join(dir, file1)
	text := files(t, dir)[file1]
	for _, changed := range []string{text[:len(text)-9], strings.Replace(text, "text 1", "text 7", 1), ""} {
		must(t, os.WriteFile(path, []byte(changed), 0o600))
		if err := j.Read(0, func(Record) error { return nil }); !errors.As(err, new(*Refused)) || !strings.Contains(err.Error(), path) {
			t.Errorf("Read of a damaged file returns %v", err)
		}
	}
	must(t, os.Remove(path))
	if err := j.Read(0, func(Record) error { return nil }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Read of a file that is missing returns %v", err)
	}
}
