package boltledger

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// An account is what is in memory of a credential.
type account struct {
	name     string
	deciding sync.Mutex   // held from a decision until it is on disk
	newest   atomic.Int64 // the ms of the newest entry

	mu sync.Mutex // guards state, and is never held while the file is written; taken before the file is opened
	// state is nil until it was read, and again when nobody knows what became of a
	// write. While one is under way, what is being written counts already.
	state *slidinglog.Account
}

// update has f decide on a credential's account, and writes what it decided. After
// an error nothing is as f left it, unless the outcome is unknown.
func (l *Ledger) update(c *quota.Credential, f func(*batch) error) error {
	a := l.account(c.Name)
	a.deciding.Lock()
	defer a.deciding.Unlock()
	b, err := l.decide(a, c, f)
	if err != nil || b.isEmpty() {
		return err
	}
	if err = l.commit(b); err != nil {
		l.noteWrite(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.state.Lost = max(a.state.Lost, b.trimmed.Ms)
	case errors.Is(err, quota.ErrOutcomeUnknown) || b.emptied:
		a.state = nil // the file knows
	default:
		b.undo()
	}
	if a.state != nil {
		a.newest.Store(a.state.Last.Ms)
	}
	return err
}

// decide has f fill a batch, which counts in the account from then on.
func (l *Ledger) decide(a *account, c *quota.Credential, f func(*batch) error) (*batch, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := &batch{credential: c, keys: make(map[string]int)}
	err := l.view(func(tx *bbolt.Tx) error {
		b.file = openBuckets(tx, c.Name)
		if err := a.load(b.file); err != nil {
			return err
		}
		if err := b.begin(a.state, l.clock()); err != nil {
			return err
		}
		return errors.Join(f(b), b.err)
	})
	if err != nil && b.state != nil {
		b.undo()
	}
	if b.emptied {
		a.state = b.state
	}
	return b, err
}

// read has f read a credential's account as of now, on a copy that agrees with its
// view of the file: whoever decides waits for the copy, not for f. The account is locked
// before the file is opened, as decide does it: bbolt lets nobody in while a writer waits
// to map the file anew, and that one waits for all who are in.
func (l *Ledger) read(c *quota.Credential, f func(*batch)) error {
	a := l.account(c.Name)
	b := &batch{credential: c}
	a.mu.Lock()
	unlock := sync.OnceFunc(a.mu.Unlock)
	defer unlock()
	return l.view(func(tx *bbolt.Tx) error {
		b.file = openBuckets(tx, c.Name)
		if err := a.load(b.file); err != nil {
			return err
		}
		state := a.state.Clone()
		unlock()
		if err := b.begin(state, l.clock()); err != nil {
			return err
		}
		f(b)
		return b.err
	})
}

// load reads an account's state from the file, unless it is in memory.
func (a *account) load(b buckets) error {
	if a.state != nil {
		return nil
	}
	summary, err := b.summary()
	if err != nil {
		return fmt.Errorf("credential %q: %w", a.name, err)
	}
	closed, err := b.closed()
	if err != nil {
		return fmt.Errorf("credential %q: %w", a.name, err)
	}
	a.state = &slidinglog.Account{Last: b.last(), Lost: summary.lost, Closed: closed}
	a.newest.Store(a.state.Last.Ms)
	return nil
}
