package boltledger

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quotad/quota/slidinglog"
)

const credential = "youtube"

func mustOpen(t testing.TB, path string) *File {
	t.Helper()
	l, err := Open(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An entry has a number, by which its value and its request key can be told.
func entryID(n int) []byte       { return fmt.Appendf(nil, "%015d", n) }
func entryValue(n int) []byte    { return []byte(fmt.Sprintf("entry %d of videos.list by trending", n)) }
func entryKey(n int) []byte      { return fmt.Append(nil, "run/page-", n) }
func frameOf(n, size int) []byte { return []byte(fmt.Sprintf("%0*d", size, n)) }

// put is the change that adds entries of numbers from one on, each with its request key and
// a mark.
func put(from, n int) slidinglog.TableChange {
	c := slidinglog.TableChange{Credential: credential, Facts: []byte(fmt.Sprint("up to ", from+n))}
	for i := from; i < from+n; i++ {
		c.Rows = append(c.Rows, slidinglog.Row{Table: slidinglog.EntryTable, Key: entryID(i), Value: entryValue(i)},
			slidinglog.Row{Table: slidinglog.NameTable, Key: entryKey(i), Value: entryID(i)},
			slidinglog.Row{Table: slidinglog.MarkTable, Key: entryID(i), Value: []byte{}})
	}
	return c
}

func fold(l *File, changes ...slidinglog.TableChange) error {
	l.Cut()
	return l.Fold(changes)
}

// counted returns how many entries the tables have, of which each must be as it was put.
func counted(t testing.TB, l *File) (n int) {
	t.Helper()
	must(t, l.View(credential, func(tables slidinglog.Tables) error {
		for key, value := range tables.Rows(slidinglog.EntryTable, nil, false) {
			id, mark := tables.Get(slidinglog.NameTable, entryKey(n)), tables.Get(slidinglog.MarkTable, entryID(n))
			if !bytes.Equal(key, entryID(n)) || !bytes.Equal(value, entryValue(n)) || !bytes.Equal(id, key) || mark == nil {
				return fmt.Errorf("entry %d is %q, %q, named %q, marked %t", n, key, value, id, mark != nil)
			}
			n++
		}
		marks := 0
		for range tables.Rows(slidinglog.MarkTable, nil, true) {
			marks++
		}
		if facts := tables.Facts(); n > 0 && string(facts) != fmt.Sprint("up to ", n) || marks != n {
			return fmt.Errorf("facts %q, %d marks of %d", facts, marks, n)
		}
		return nil
	}))
	return n
}

// frames returns what the tail has, as text.
func frames(t testing.TB, l *File) (texts []string) {
	t.Helper()
	must(t, l.Tail(func(of string, frame []byte) error {
		if of != credential {
			t.Errorf("a frame of %q", of)
		}
		texts = append(texts, string(frame))
		return nil
	}))
	return texts
}

// holds fails unless the tail has the frames of these numbers.
func holds(t testing.TB, l *File, size, from, to int) {
	t.Helper()
	got := frames(t, l)
	for i := from; i < to; i++ {
		if i-from >= len(got) || got[i-from] != string(frameOf(i, size)) {
			t.Fatalf("frame %d of %d to %d is missing, or another one: there are %d", i, from, to, len(got))
		}
	}
	if len(got) != to-from {
		t.Fatalf("%d frames, want those from %d to %d", len(got), from, to)
	}
}

func appendFrames(t testing.TB, l *File, size, from, to int, sync bool) {
	t.Helper()
	for i := from; i < to; i++ {
		must(t, l.Append(credential, frameOf(i, size), sync))
	}
}

// suffixes are those of all files of a ledger; the position first, which never leads.
var suffixes = []string{".position", "", ".tail0", ".tail1"}

// copyLedger returns the path of a copy of a ledger as it is now: what a process finds that
// is started when the one that has it open is killed.
func copyLedger(t testing.TB, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "ledger.db")
	for _, suffix := range suffixes {
		content, err := os.ReadFile(path + suffix)
		must(t, err)
		must(t, os.WriteFile(to+suffix, content, 0o600))
	}
	return to
}

// smallDisk is a file system of that size.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("cannot unmount: %v", err)
		}
	})
	return dir
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	must(t, err)
	defer file.Close()
	for {
		if _, err := file.WriteString(strings.Repeat("x", 4096)); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// changesOf puts the entries of some numbers.
func changesOf(from, to int) []slidinglog.TableChange {
	if from == to {
		return nil
	}
	return []slidinglog.TableChange{put(from, to-from)}
}

// unwritable are changes that fail behind one that does not.
func unwritable() []slidinglog.TableChange {
	return []slidinglog.TableChange{put(1000, 5), {Credential: credential, Rows: []slidinglog.Row{{Key: bytes.Repeat([]byte("k"), 1<<16), Value: []byte("v")}}}}
}

// killed plays a test in a process of its own, which finds value in a variable, and kills it when it
// has written a number of lines, wherever it is by then. It calls each with every line.
func killed(t *testing.T, test, variable, value string, lines int, each func(line string)) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	child.Env = append(os.Environ(), variable+"="+value)
	output, err := child.StdoutPipe()
	must(t, err)
	child.Stderr = os.Stderr
	must(t, child.Start())
	n := 0
	for scanner := bufio.NewScanner(output); scanner.Scan(); {
		each(scanner.Text())
		if n++; n == lines {
			must(t, child.Process.Kill())
		}
	}
	if err := child.Wait(); err == nil || n < lines {
		t.Fatalf("the child ended by itself after %d lines: %v", n, err)
	}
}
