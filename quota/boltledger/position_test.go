package boltledger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// inPlaceOf puts what a test wants in the place of a ledger with 20 entries and the synced
// frames 0 to 9 in its tail, and returns its path. older is a copy of it with 11 entries.
func inPlaceOf(t *testing.T, replace func(path, older string)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	older := ""
	for i := range 20 {
		if i == 11 {
			older = copyLedger(t, path)
		}
		must(t, l.Append(credential, frameOf(i, 10), true))
		must(t, fold(l, put(i, 1)))
	}
	appendFrames(t, l, 10, 0, 10, true)
	must(t, l.Close())
	replace(path, older)
	return path
}

// A ledger that is not the one that was here would grant again what was spent: it is
// refused, and taken when somebody says so.
func TestAnotherLedgerIsRefused(t *testing.T) {
	replace := func(suffixes ...string) func(string, string) {
		return func(path, older string) {
			for _, suffix := range suffixes {
				must(t, os.Rename(older+suffix, path+suffix))
			}
		}
	}
	for _, row := range []struct {
		name, says string
		config     Config
		put        func(path, older string)
		entries    int // once it is accepted
		frames     int
	}{
		{"an older copy", "is older than it was", Config{}, replace(""), 11, 0},
		{"an older copy with its tail", "is older than it was", Config{}, replace("", ".tail0", ".tail1"), 11, 0},
		{"an older tail", "lacks the end of its tail", Config{}, replace(".tail0", ".tail1"), 20, 0},
		{"no tail", "lacks the end of its tail", Config{}, func(path, _ string) {
			must(t, errors.Join(os.Remove(path+".tail0"), os.Remove(path+".tail1")))
		}, 20, 0},
		{"none", "is missing", Config{}, func(path, _ string) { must(t, os.Remove(path)) }, 0, 0},
		{"none, and no position, but a history", "is missing", Config{History: true}, func(path, _ string) {
			must(t, errors.Join(os.Remove(path), os.Remove(path+".position")))
		}, 0, 0},
		{"another one", "is not the one that was here", Config{}, func(path, _ string) {
			other := filepath.Join(t.TempDir(), "other.db")
			must(t, mustOpen(t, other).Close())
			must(t, os.Rename(other, path))
		}, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			config := row.config
			config.Path = inPlaceOf(t, row.put)
			for range 2 { // it is not taken the second time either
				if l, err := Open(config); err == nil || !strings.Contains(err.Error(), row.says) || !strings.Contains(err.Error(), "--accept-new-ledger") {
					t.Fatalf("got %v, %v; want an error that says %q, and the way out", l, err, row.says)
				}
			}
			must(t, os.WriteFile(filepath.Join(filepath.Dir(config.Path), "accept-new-ledger"), nil, 0o600))
			if os.Geteuid() != 0 { // a job could make one, too
				if _, err := Open(config); err == nil {
					t.Error("the file of a plain user accepts a ledger")
				}
				config.AcceptNew = true
			}
			for n := range 3 {
				l, err := Open(config)
				must(t, err)
				config.AcceptNew = false
				if got, frames := counted(t, l), len(frames(t, l)); got != row.entries || frames != row.frames+n {
					t.Errorf("%d entries and %d frames, want %d and %d", got, frames, row.entries, row.frames+n)
				}
				must(t, l.Append(credential, frameOf(n, 10), true))
				must(t, l.Close())
			}
		})
	}
}

func TestAcceptedByTheCommandLine(t *testing.T) {
	path := inPlaceOf(t, func(path, _ string) { os.Remove(path) })
	l, err := Open(Config{Path: path, AcceptNew: true})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	mustOpen(t, path).Close()
}

// The first ledger of a host is nobody's loss, and one that was ended by a crash is the
// right one.
func TestTheRightLedgerIsOpened(t *testing.T) {
	path := inPlaceOf(t, func(path, _ string) {
		must(t, os.Remove(path+".position")) // of a host that never had one
	})
	l, err := Open(Config{Path: path, History: true})
	must(t, err)
	defer l.Close()
	must(t, fold(l, put(20, 1)))
	killed := mustOpen(t, copyLedger(t, path))
	defer killed.Close()
	if got := counted(t, killed); got != 21 {
		t.Errorf("%d entries, want 21", got)
	}
}

// Whichever bit of an entry or of what is kept beside the entries is flipped: the
// start notices.
func TestFlippedBitsAreRefused(t *testing.T) {
	content := wholeFile(t, 3)
	for bit := range 8 * 6 {
		damaged := bytes.Clone(content)
		for at := 0; ; at++ { // where it stands, and where it stood before
			n := bytes.Index(damaged[at:], summaryKey)
			if n < 0 {
				break
			}
			at += n + len(summaryKey)
			damaged[at+bit/8] ^= 1 << (bit % 8)
		}
		if l, refused := open(t, damaged); !refused {
			t.Errorf("with bit %d of the summary flipped, there are %d entries", bit, counted(t, l))
			l.Close()
		}
	}
}

// A file of another version is refused, and stays as it is.
func TestAnotherVersionIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	err := l.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(headBucket).Put(versionKey, withChecksum(versionKey, []byte("another")))
	})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Path: path}); !errors.Is(err, slidinglog.ErrVersion) || !strings.Contains(err.Error(), "install that version again, or move ledger.db* away") {
		t.Errorf("got %v, want that it is another version's, and what can be done", err)
	}
}

// A file that is cut short while it is open makes errors, not a crash of the daemon.
func TestFileCutShortWhileOpen(t *testing.T) {
	path := inPlaceOf(t, func(string, string) {})
	l := mustOpen(t, path)
	defer l.Close()
	counted(t, l)
	must(t, os.Truncate(path, 2*pageSize))
	l.looked.Store(nil) // a second later
	look := func(slidinglog.Tables) error { return nil }
	for what, err := range map[string]error{"Fold": fold(l, put(20, 1)), "View": l.View(credential, look), "Append": l.Append(credential, nil, false)} {
		if !errors.Is(err, quota.ErrUnavailable) {
			t.Errorf("%s: %v, want an unavailable ledger", what, err)
		}
	}
	if _, err := l.Health(); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("got %v, want it said", err)
	}
	// Where nobody looked at its size before reading, the fault is an error too.
	l.files[0].size = 0
	err := l.View(credential, func(tables slidinglog.Tables) error {
		for range tables.Rows(slidinglog.EntryTable, nil, false) {
		}
		return nil
	})
	if !errors.Is(err, quota.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "restart quotad") {
		t.Errorf("got %v of a file without its end, want an error", err)
	}
	if err := l.View(credential, look); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("got %v after a fault; want an unavailable ledger", err)
	}
	if _, err := l.Health(); err == nil || !strings.Contains(err.Error(), "restart quotad") {
		t.Errorf("got %v, want it said", err)
	}
}

func TestTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	appendFrames(t, l, 10, 0, 3, false)
	if _, err := Open(Config{Path: path}); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("opened twice: %v", err)
	}
	must(t, l.Close())
	l = mustOpen(t, path)
	defer l.Close()
	holds(t, l, 10, 0, 3)
}
