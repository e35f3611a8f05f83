package boltledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
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
	// History says that there has been a ledger here: one that is new then is a
	// fresh budget for everybody, and is refused.
	History bool
	// AcceptNew takes the ledger that is there for the right one, though it is new,
	// another one, or older than it was.
	AcceptNew bool
	// Began is called with what is new about the ledger, if it is not the one that was
	// here last: every limit then counts what it holds, and no more. Nil: nobody is.
	Began func(how string)
}

// A Ledger is a quota.Ledger in a file. The file belongs to one process at a time.
type Ledger struct {
	db       *bbolt.DB
	file     os.FileInfo // of the file that is open
	position *position
	clock    func() time.Time
	unsynced bool
	broken   atomic.Pointer[error] // why the file cannot be used any more, once that is so

	mu       sync.Mutex // guards what follows
	accounts map[string]*account
	failing  error // why the file could not be written last; nil when it could
}

var _ quota.Ledger = (*Ledger)(nil)

// Open opens the ledger, and creates it where there is no file. A file that is
// not a whole ledger, or not the one that was here, is an error and stays as it is.
func Open(config Config) (*Ledger, error) {
	l := &Ledger{clock: config.Clock, unsynced: config.Unsynced, accounts: make(map[string]*account)}
	if l.clock == nil {
		l.clock = time.Now
	}
	if err := l.openFile(config); err != nil {
		return nil, err
	}
	return l, nil
}

// Close waits for what is being written and closes the file. One that became unusable
// is left to the end of the process: bbolt may wait for ever for what a fault left locked.
func (l *Ledger) Close() error {
	if broken := l.broken.Load(); broken != nil {
		return errors.Join(*broken, l.position.close())
	}
	if err := errors.Join(l.db.Close(), l.position.close()); err != nil {
		return fmt.Errorf("cannot close ledger %q: %w", l.db.Path(), err)
	}
	return nil
}

// account returns a credential's account.
func (l *Ledger) account(name string) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[name]
	if a == nil {
		a = &account{name: name}
		l.accounts[name] = a
	}
	return a
}

// Acquire implements quota.Ledger. What a batch grants is written in one
// transaction; a batch that grants nothing writes nothing.
func (l *Ledger) Acquire(_ context.Context, c *quota.Credential, asks []quota.Ask) ([]quota.Decision, error) {
	decisions := make([]quota.Decision, len(asks))
	err := l.update(c, func(b *batch) (err error) {
		for i, ask := range asks {
			if decisions[i], err = b.decide(ask); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return decisions, nil
}

// Peek implements quota.Ledger.
func (l *Ledger) Peek(_ context.Context, c *quota.Credential, _ []string, charges []quota.Charge, useReserve bool) (d quota.Decision, err error) {
	err = l.read(c, func(b *batch) { d = b.state.Decide(c, charges, useReserve, b.clock, b) })
	return d, err
}

// Settle implements quota.Ledger.
func (l *Ledger) Settle(_ context.Context, c *quota.Credential, s quota.Settlement) (d quota.Decision, err error) {
	err = l.update(c, func(b *batch) (err error) {
		d, err = b.settle(s)
		return err
	})
	return d, err
}

// Adjust implements quota.Ledger. One that gives back from more entries than one
// transaction may change is booked in several.
func (l *Ledger) Adjust(_ context.Context, c *quota.Credential, a quota.Adjustment) (d quota.Decision, err error) {
	booked, more := quota.Units(0), true
	for more && err == nil {
		err = l.update(c, func(b *batch) error {
			d, more = b.adjust(a)
			return nil
		})
		booked += d.Units
		a.Units += int64(d.Units)
	}
	d.Units = booked
	return d, err
}

// CloseLimit implements quota.Ledger.
func (l *Ledger) CloseLimit(_ context.Context, c *quota.Credential, k quota.Closing) (changed bool, err error) {
	err = l.update(c, func(b *batch) error {
		changed = b.closeLimit(k)
		return nil
	})
	return changed && err == nil, err
}

// Reset implements quota.Ledger.
func (l *Ledger) Reset(_ context.Context, c *quota.Credential, by quota.Caller, note string) error {
	return l.update(c, func(b *batch) error {
		b.reset(by, note)
		return nil
	})
}

// Usage implements quota.Ledger.
func (l *Ledger) Usage(_ context.Context, c *quota.Credential) (u quota.Usage, err error) {
	err = l.read(c, func(b *batch) {
		u.Now = b.now
		for i := range c.Limits {
			u.Limits = append(u.Limits, b.state.State(i, b.now, b))
		}
	})
	return u, err
}

// Log implements quota.Ledger.
func (l *Ledger) Log(_ context.Context, c *quota.Credential, q quota.LogQuery) (page quota.LogPage, err error) {
	err = l.view(func(tx *bbolt.Tx) error {
		page, err = openBuckets(tx, c.Name).page(q)
		return err
	})
	if err != nil {
		return quota.LogPage{}, err
	}
	return page, nil
}

// ahead is by how much the newest entry of a log may be ahead of the clock before
// somebody is told.
const ahead = 10 * time.Second

// Health implements quota.Ledger. Whether the file can be written is known from the
// last time that it was.
func (l *Ledger) Health(context.Context) quota.Health {
	h := quota.Health{Backend: "embedded", State: "ok", Reachable: true}
	if l.unsynced {
		h.Warnings = append(h.Warnings, "sync is off: a crash of the machine loses the grants of the last seconds")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(l.accounts)) {
		newest := time.UnixMilli(l.accounts[name].newest.Load())
		if by := newest.Sub(l.clock()); by > ahead {
			h.Warnings = append(h.Warnings, fmt.Sprintf("credential %q: the newest entry of its log is %v ahead of the clock, so that nothing leaves a window until %s: quotactl reset ends that",
				name, by.Round(time.Second), newest.UTC().Format(time.RFC3339)))
		}
	}
	if err := errors.Join(l.displaced(), l.failing); err != nil {
		h.State, h.Reachable = err.Error(), false
	}
	return h
}

// noteWrite takes in what became of a write.
func (l *Ledger) noteWrite(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing = err
}
