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
	file     os.FileInfo // of the file that is open
	clock    func() time.Time
	unsynced bool

	mu       sync.Mutex // guards what follows
	accounts map[string]*account
	failing  error // why the file could not be written last; nil when it could
}

var _ quota.Ledger = (*Ledger)(nil)

// An account is a credential's account in memory, as the file has it or newer:
// what has left a window since the last write follows with the next one.
type account struct {
	mu sync.Mutex // guards state, and is held while the file is written
	// state is nil until it was read, and again after a write that failed: whether
	// it reached the file, the file knows.
	state *quota.Account
}

// Open opens the ledger, and creates it where there is no file. A file that is
// not a whole ledger is an error and stays as it is.
func Open(config Config) (*Ledger, error) {
	if err := checkFile(config.Path); err != nil {
		return nil, err
	}
	db, err := openWhole(config)
	if err != nil {
		return nil, err
	}
	file, err := os.Stat(config.Path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open ledger: %w", err), db.Close())
	}
	l := &Ledger{db: db, file: file, clock: config.Clock, unsynced: config.Unsynced, accounts: make(map[string]*account)}
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
