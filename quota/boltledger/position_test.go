package boltledger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"quotad/quota"
)

// inPlaceOf puts what a test wants in the place of a ledger with 20 grants, and
// returns its path.
func inPlaceOf(t *testing.T, put func(path string, older []byte)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	var older []byte
	for i := range 20 {
		if d, err := grant(l, fmt.Sprint("id-", i)); err != nil || !d.Granted() {
			t.Fatal(d, err)
		}
		if i == 10 {
			var err error
			if older, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	put(path, older)
	return path
}

// A ledger that is not the one that was here would grant again what was spent: it is
// refused, and taken when somebody says so.
func TestAnotherLedgerIsRefused(t *testing.T) {
	for _, row := range []struct {
		name, says string
		config     Config
		put        func(path string, older []byte)
		used       quota.Units // once it is accepted
	}{
		{"an older copy", "is older than it was", Config{}, func(path string, older []byte) {
			if err := os.WriteFile(path, older, 0o600); err != nil {
				t.Fatal(err)
			}
		}, 11},
		{"none", "is missing", Config{}, func(path string, _ []byte) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, 0},
		{"none, and no position, but a history", "is missing", Config{History: true}, func(path string, _ []byte) {
			if err := errors.Join(os.Remove(path), os.Remove(path+".position")); err != nil {
				t.Fatal(err)
			}
		}, 0},
		{"another one", "is not the one that was here", Config{}, func(path string, _ []byte) {
			other := filepath.Join(t.TempDir(), "other.db")
			if err := mustOpen(t, other).Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(other, path); err != nil {
				t.Fatal(err)
			}
		}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			config := row.config
			config.Path = inPlaceOf(t, row.put)
			for range 2 { // it is not taken the second time either
				if l, err := Open(config); err == nil || !strings.Contains(err.Error(), row.says) || !strings.Contains(err.Error(), "--accept-new-ledger") {
					t.Fatalf("got %v, %v; want an error that says %q, and the way out", l, err, row.says)
				}
			}
			if os.Getuid() != 0 {
				t.Skip("only root can accept it by a file")
			}
			if err := os.WriteFile(acceptPath(config.Path), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			began := ""
			config.Began = func(how string) { began += how }
			for range 2 {
				l, err := Open(config)
				if err != nil {
					t.Fatal(err)
				}
				if got := used(t, l); got != row.used {
					t.Errorf("%d units are used, want %d", got, row.used)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if strings.Count(began, row.says) != 1 {
				t.Errorf("told %q, want once that it %s", began, row.says)
			}
		})
	}
}

// What a job of quotad's own user can put beside the ledger accepts none.
func TestOnlyRootAccepts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make files of others")
	}
	for name, put := range map[string]func(accept string) error{
		"another user's": func(accept string) error {
			return errors.Join(os.WriteFile(accept, nil, 0o600), os.Chown(accept, 1, 1))
		},
		"something of root's in its place": func(accept string) error { return os.WriteFile(accept, []byte("x"), 0o600) },
		"a link to one of root's": func(accept string) error {
			return errors.Join(os.WriteFile(accept+".other", nil, 0o600), os.Link(accept+".other", accept))
		},
		"a symbolic link to one of root's": func(accept string) error {
			return errors.Join(os.WriteFile(accept+".other", nil, 0o600), os.Symlink(accept+".other", accept))
		},
	} {
		path := inPlaceOf(t, func(path string, _ []byte) { os.Remove(path) })
		if err := put(acceptPath(path)); err != nil {
			t.Fatal(err)
		}
		if Verify(Config{Path: path}) == nil {
			t.Errorf("%s accepts a new ledger, by Verify", name)
		}
		if l, err := Open(Config{Path: path}); err == nil {
			t.Errorf("%s accepts a new ledger", name)
			l.Close()
		}
	}
}

func TestAcceptedByTheCommandLine(t *testing.T) {
	path := inPlaceOf(t, func(path string, _ []byte) { os.Remove(path) })
	l, err := Open(Config{Path: path, AcceptNew: true})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	mustOpen(t, path).Close()
}

// The first ledger of a host is nobody's loss, and one that was ended by a crash is
// the right one.
func TestTheRightLedgerIsOpened(t *testing.T) {
	path := inPlaceOf(t, func(path string, _ []byte) {
		if err := os.Remove(path + ".position"); err != nil { // of a host that never had one
			t.Fatal(err)
		}
	})
	l, err := Open(Config{Path: path, History: true})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := grant(l, "more"); err != nil || !d.Granted() {
		t.Fatal(d, err)
	}
	// Killed here: nothing is closed, and a process that is gone holds no lock.
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	position, err := os.ReadFile(path + ".position")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	other := filepath.Join(t.TempDir(), "ledger.db")
	if err := errors.Join(os.WriteFile(other, content, 0o600), os.WriteFile(other+".position", position, 0o600)); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, other)
	defer l.Close()
	if got := used(t, l); got != 21 {
		t.Errorf("%d units are used, want 21", got)
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
			t.Errorf("with bit %d of the summary flipped, %d units are used", bit, used(t, l))
			l.Close()
		}
	}
}

// A file of another version is refused, and stays as it is.
func TestAnotherVersionIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	err := l.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(headBucket).Put(versionKey, seal(versionKey, []byte("another")))
	})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Path: path}); !errors.Is(err, errVersion) || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("got %v, want that it is another version's, and what can be done", err)
	}
}

// A file that is cut short while it is open makes errors, not a crash of the daemon.
func TestFileCutShortWhileOpen(t *testing.T) {
	path := inPlaceOf(t, func(string, []byte) {})
	l := mustOpen(t, path)
	defer l.Close()
	used(t, l)
	if err := os.Truncate(path, 2*pageSize); err != nil {
		t.Fatal(err)
	}
	if d, err := grant(l, "id"); !errors.Is(err, quota.ErrUnavailable) && !errors.Is(err, quota.ErrOutcomeUnknown) {
		t.Errorf("got %+v, %v; want an unavailable ledger", d, err)
	}
	if _, err := l.Log(t.Context(), youtube(), quota.LogQuery{Most: 100}); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("got %v of the log, want an unavailable ledger", err)
	}
	if h := l.Health(t.Context()); h.Reachable || !strings.Contains(h.State, "cut short") {
		t.Errorf("got %+v, want it said", h)
	}
	// Where nobody looked at its size before reading, the fault is an error too.
	err := l.use(func() error {
		return l.db.View(func(tx *bbolt.Tx) error {
			_, err := openBuckets(tx, "youtube").page(quota.LogQuery{Most: 100})
			return err
		})
	})
	if !errors.Is(err, quota.ErrOutcomeUnknown) {
		t.Errorf("got %v of a file without its end, want an error", err)
	}
	if d, err := grant(l, "id"); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("got %+v, %v after a fault; want an unavailable ledger", d, err)
	}
}
