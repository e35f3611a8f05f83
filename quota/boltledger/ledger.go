// Package boltledger keeps the quota ledger in a bbolt file: one host, nothing
// else to run, every grant on disk before it is answered.
package boltledger

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"quotad/quota"
)

// A Config says where the ledger is and how it behaves.
type Config struct {
	Path string // of the file; its directory must exist
	// Unsynced leaves writing to disk to the operating system: a crash of the
	// machine, not of the daemon, then loses the grants of the last seconds.
	Unsynced bool
	Clock    func() time.Time // nil: time.Now
}

// A Ledger is a quota.Ledger in a file. The file belongs to one process at a time.
type Ledger struct {
	db       *bbolt.DB
	clock    func() time.Time
	unsynced bool

	mu       sync.Mutex // guards accounts
	accounts map[string]*account
}

var _ quota.Ledger = (*Ledger)(nil)

// An account is a credential's account in memory, as the file has it or newer:
// what has left a window since the last write follows with the next one.
type account struct {
	mu sync.Mutex // guards state, and is held while the file is written
	// state is nil until it was read.
	state *quota.Account
}

// lockWait is how long Open waits for another process to let go of the file.
const lockWait = 200 * time.Millisecond

// Open opens the ledger, and creates it where there is no file. A file that is
// not a whole ledger is an error and stays as it is.
func Open(config Config) (*Ledger, error) {
	if err := checkFile(config.Path); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(config.Path, 0o600, &bbolt.Options{
		Timeout:      lockWait,
		NoSync:       config.Unsynced,
		FreelistType: bbolt.FreelistMapType,
	})
	if err != nil {
		return nil, openError(config.Path, err)
	}
	if err := checkWhole(db); err != nil {
		db.Close()
		return nil, err
	}
	l := &Ledger{db: db, clock: config.Clock, unsynced: config.Unsynced, accounts: make(map[string]*account)}
	if l.clock == nil {
		l.clock = time.Now
	}
	return l, nil
}

// Close waits for what is being written and closes the file.
func (l *Ledger) Close() error {
	if err := l.db.Close(); err != nil {
		return fmt.Errorf("cannot close ledger %q: %w", l.db.Path(), err)
	}
	return nil
}

func openError(path string, err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("cannot open ledger %q: another process uses it", path)
	}
	if errors.Is(err, bolterrors.ErrInvalid) || errors.Is(err, bolterrors.ErrChecksum) || errors.Is(err, bolterrors.ErrVersionMismatch) {
		return damaged(path, err.Error())
	}
	return fmt.Errorf("cannot open ledger %q: %w", path, err)
}

// checkFile refuses an empty file: bbolt would take it for a new ledger, with a
// fresh budget for everybody.
func checkFile(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot open ledger: %w", err)
	}
	if info.Size() == 0 {
		return damaged(path, "the file is empty")
	}
	return nil
}

// checkWhole refuses a file that ends before the pages it says it has: reading
// them later would end the daemon.
func checkWhole(db *bbolt.DB) error {
	info, err := os.Stat(db.Path())
	if err != nil {
		return fmt.Errorf("cannot open ledger: %w", err)
	}
	return db.View(func(tx *bbolt.Tx) error {
		if info.Size() < tx.Size() {
			return damaged(db.Path(), fmt.Sprintf("the file has %d bytes of %d", info.Size(), tx.Size()))
		}
		return nil
	})
}

func damaged(path, how string) error {
	return fmt.Errorf("ledger %q is damaged: %s; restore it from a backup, or move it away to begin with an empty log (every limit then counts from zero)", path, how)
}

// now is the host's clock; each account keeps its own time from running back.
func (l *Ledger) now() time.Time { return l.clock() }

// account returns a credential's account, read from the file the first time,
// with its lock held; done releases it.
func (l *Ledger) account(name string) (a *account, done func(), err error) {
	l.mu.Lock()
	a = l.accounts[name]
	if a == nil {
		a = &account{}
		l.accounts[name] = a
	}
	l.mu.Unlock()
	a.mu.Lock()
	if a.state == nil {
		if a.state, err = l.load(name); err != nil {
			a.mu.Unlock()
			return nil, nil, err
		}
	}
	return a, a.mu.Unlock, nil
}

func (l *Ledger) load(name string) (*quota.Account, error) {
	state := &quota.Account{}
	err := l.db.View(func(tx *bbolt.Tx) error {
		value := openBuckets(tx, name).account()
		if value == nil {
			return nil
		}
		return decodeAccount(value, state)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read ledger %q: %w: %w", l.db.Path(), quota.ErrUnavailable, err)
	}
	return state, nil
}
