package boltledger

import (
	"bytes"
	"errors"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"quotad/quota"
	"quotad/quota/seedtest"
	"quotad/quota/slidinglog"
)

// pageSize is bbolt's on every machine with pages of 4 KiB; on another one the
// damages below lie elsewhere, which is as good.
const pageSize = 4096

// wholeFile returns the content of a ledger with a number of entries, each of which was
// folded by itself.
func wholeFile(t *testing.T, n int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	for i := range n {
		must(t, fold(l, put(i, 1)))
	}
	must(t, l.Close())
	content, err := os.ReadFile(path)
	must(t, err)
	return content
}

// open writes a content to a file and opens it. A file that is refused must be
// left as it is, and the error must say what can be done.
func open(t *testing.T, content []byte) (l *File, refused bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	verified := Verify(Config{Path: path}, func(*File, []string) error { return nil })
	l, err := Open(Config{Path: path})
	if (verified == nil) != (err == nil) {
		t.Errorf("verified: %v, but opened: %v", verified, err)
	}
	if err == nil {
		return l, false
	}
	// A later attempt finds it damaged too, whatever the first one left open.
	if _, again := Open(Config{Path: path}); again == nil || !strings.Contains(again.Error(), " is damaged: ") {
		t.Errorf("at first %v, then %v", err, again)
	}
	for _, want := range []string{path, " is damaged: ", "restore it from a backup, or move it away"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, content) {
		t.Errorf("the refused file was changed: %v", err)
	}
	return nil, true
}

// A file that lost its end is refused wherever it ends. One that has all its
// pages is whole.
func TestTruncatedFileIsRefused(t *testing.T) {
	content := wholeFile(t, 200)
	whole := 0
	for size := 0; size < len(content); size += pageSize / 4 {
		l, refused := open(t, content[:size])
		if refused {
			continue
		}
		whole++
		if got := counted(t, l); got != 200 {
			t.Errorf("with %d of %d bytes %d entries, want 200", size, len(content), got)
		}
		l.Close()
	}
	if most := len(content) / (pageSize / 4) / 2; whole > most {
		t.Errorf("%d shorter files were opened", whole)
	}
}

// A damaged file is refused, or has all that it had: the damage is where nothing
// stood. Where the last transaction's own page is damaged, bbolt goes on from the
// one before.
func TestDamagedFileIsRefused(t *testing.T) {
	const grants = 200
	content := wholeFile(t, grants)
	seed := seedtest.Seed(t, 20261121)
	random := rand.New(rand.NewSource(int64(seed)))
	damages := []func(page []byte){
		func(page []byte) { clear(page) },
		func(page []byte) { random.Read(page) },
		func(page []byte) { random.Read(page[:16]) },                              // its header
		func(page []byte) { page[random.Intn(64)] ^= byte(1 + random.Intn(255)) }, // that, or what stands behind it
	}
	refusals := 0
	for i := range 400 {
		damaged := bytes.Clone(content)
		at := random.Intn(len(damaged)/pageSize) * pageSize
		damages[i%len(damages)](damaged[at : at+pageSize])
		l, refused := open(t, damaged)
		if refused {
			refusals++
			continue
		}
		if got := counted(t, l); got != grants && (at >= 2*pageSize || got != grants-1) {
			t.Errorf("seed %d, damage %d at %d: %d entries, want %d", seed, i, at, got, grants)
		}
		l.Close()
	}
	if refusals < 40 {
		t.Errorf("only %d of 400 damaged files were refused", refusals)
	}
}

// A table that lacks a row is refused, though each row that it has is whole.
func TestALostRowIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	must(t, os.WriteFile(path, wholeFile(t, 3), 0o600))
	db, err := bbolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bbolt.Tx) error {
		rows := openTables(tx, credential).table[slidinglog.EntryTable].Cursor()
		rows.First()
		return rows.Delete()
	}))
	must(t, db.Close())
	content, err := os.ReadFile(path)
	must(t, err)
	if _, refused := open(t, content); !refused {
		t.Error("it was opened")
	}
}

func TestOtherFilesAreRefused(t *testing.T) {
	for name, content := range map[string]string{
		"empty":    "",
		"text":     strings.Repeat("this is a letter to a friend\n", 1000),
		"zeros":    strings.Repeat("\x00", 64<<10),
		"database": "SQLite format 3\x00" + strings.Repeat("\x01", 64<<10),
	} {
		t.Run(name, func(t *testing.T) {
			if _, refused := open(t, []byte(content)); !refused {
				t.Error("it was opened")
			}
		})
	}
}

// To begin a transaction costs more than all else in a decision that reads nothing.
func TestViewBeginsWhenItReads(t *testing.T) {
	l := mustOpen(t, filepath.Join(t.TempDir(), "ledger.db"))
	defer l.Close()
	must(t, fold(l, put(0, 1)))
	for reads := range 3 {
		before := l.db.Stats().TxN
		must(t, l.View(credential, func(tables slidinglog.Tables) error {
			for range reads {
				if tables.Get(slidinglog.EntryTable, entryID(0)) == nil || tables.Facts() == nil {
					t.Error("a row is missing")
				}
			}
			return nil
		}))
		stats := l.db.Stats()
		if begun := stats.TxN - before; begun != min(reads, 1) || stats.OpenTxN > 0 {
			t.Errorf("%d reads began %d transactions, and %d are open", reads, begun, stats.OpenTxN)
		}
	}
}

// A file that was moved away is not written to: nobody would find it at the next start. What is synced
// and what is folded may be nowhere else, so that is noticed at once; the rest within a second.
func TestFileMovedWhileOpen(t *testing.T) {
	for _, suffix := range []string{"", ".tail0", ".tail1"} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		l := mustOpen(t, path)
		t.Cleanup(func() { l.Close() })
		must(t, l.Room(credential, 10))
		must(t, os.Rename(path+suffix, path+".old"))
		must(t, l.Room(credential, 10))
		if err := l.Append(credential, frameOf(0, 10), true); !errors.Is(err, quota.ErrUnavailable) {
			t.Errorf("synced without %q: %v", suffix, err)
		}
		if err := l.Room(credential, 10); !errors.Is(err, quota.ErrUnavailable) {
			t.Errorf("after that: %v", err)
		}
		for what, err := range map[string]error{
			"Room":   l.Room(credential, 10),
			"Append": l.Append(credential, frameOf(0, 10), false),
			"Fold":   fold(l, put(0, 1)),
			"View":   l.View(credential, func(slidinglog.Tables) error { return nil }),
		} {
			if !errors.Is(err, quota.ErrUnavailable) {
				t.Errorf("%s without %q: %v", what, suffix, err)
			}
		}
		if _, err := l.Health(); err == nil || !strings.Contains(err.Error(), path+suffix) {
			t.Errorf("got %v, want the file named", err)
		}
		must(t, os.Rename(path+".old", path+suffix))
		must(t, l.Append(credential, frameOf(0, 10), false))
		must(t, fold(l, put(0, 1)))
		if _, err := l.Health(); err != nil {
			t.Error(err)
		}
	}
}

// A panic of its caller is not taken for damage of the file, which serves on.
func TestAPanicIsNoDamage(t *testing.T) {
	l, refused := open(t, wholeFile(t, 10))
	if refused {
		t.Fatal("the file is refused")
	}
	defer l.Close()
	for name, use := range map[string]func(f func()) error{
		"view": func(f func()) error {
			return l.View(credential, func(tables slidinglog.Tables) error {
				tables.Facts() // begins the transaction
				f()
				return nil
			})
		},
		"update": func(f func()) error { return l.update(func(*bbolt.Tx) error { f(); return nil }) },
	} {
		func() {
			defer func() {
				if what := recover(); what == nil || what == "no panic" {
					t.Errorf("%s: %v", name, what)
				}
			}()
			err := use(func() { _ = []int{}[len(name)] })
			t.Errorf("%s: %v", name, err)
		}()
	}
	if _, err := l.Health(); err != nil {
		t.Error(err)
	}
	if got := counted(t, l); got != 10 {
		t.Errorf("%d entries, want 10", got)
	}
}
