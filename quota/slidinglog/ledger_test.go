package slidinglog_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// embedded opens ledgers on a file in memory.
func embedded() ledgertest.Harness {
	return ledgertest.Harness{Open: func(t testing.TB, clock *ledgertest.Clock) (quota.Ledger, func() quota.Ledger) {
		file := ledgertest.NewMemFile()
		open := func() quota.Ledger {
			l, err := slidinglog.Open(slidinglog.Config{File: file, Clock: clock.Now, Manual: true})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		return open(), open
	}}
}

// shared opens the ledgers of hosts on one store in memory, each with a file of its own.
func shared() ledgertest.Harness {
	var join func() quota.Ledger
	return ledgertest.Harness{
		Open: func(t testing.TB, clock *ledgertest.Clock) (quota.Ledger, func() quota.Ledger) {
			store := &lockedStore{SimStore: ledgertest.SimStore{Clock: func() int64 { return clock.Now().UnixMilli() }}}
			open := func(file *ledgertest.MemFile) quota.Ledger {
				l := &sharedLedger{clock: ledgertest.NewClock(clock.Now()), configured: make(map[string]bool)}
				var err error
				// Its own clock stands still, so that it asks the store for the time.
				l.Ledger, err = slidinglog.Open(slidinglog.Config{File: file, Store: store, Clock: l.clock.Now, Manual: true})
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			file := ledgertest.NewMemFile()
			join = func() quota.Ledger { return open(ledgertest.NewMemFile()) }
			return open(file), func() quota.Ledger { return open(file) }
		},
		Join: func(testing.TB) quota.Ledger { return join() },
	}
}

// A lockedStore is a store that several hosts call at once.
type lockedStore struct {
	mu sync.Mutex
	ledgertest.SimStore
}

func (s *lockedStore) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.SimStore.Append(ctx, calls)
}

// A sharedLedger is the ledger of one host. It follows the log of a credential, and waits until that
// is quiet no more: an empty one may have been lost.
type sharedLedger struct {
	*slidinglog.Ledger
	mu         sync.Mutex
	clock      *ledgertest.Clock
	configured map[string]bool
}

func (l *sharedLedger) follow(c *quota.Credential) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.configured[c.Name] {
		if err := l.SetCredentials([]*quota.Credential{c}, nil); err != nil {
			panic(err)
		}
		l.configured[c.Name] = true
	}
	for !l.Serves(c) {
		l.Follow(context.Background())
		l.clock.Add(time.Second)
	}
}

func patiently[T any](l *sharedLedger, c *quota.Credential, f func(*slidinglog.Ledger) (T, error)) (T, error) {
	for {
		l.follow(c)
		if result, err := f(l.Ledger); !errors.Is(err, quota.ErrRecovering) {
			return result, err
		}
	}
}

func (l *sharedLedger) Acquire(ctx context.Context, c *quota.Credential, asks []quota.Ask) ([]quota.Decision, error) {
	return patiently(l, c, func(of *slidinglog.Ledger) ([]quota.Decision, error) { return of.Acquire(ctx, c, asks) })
}

func (l *sharedLedger) Peek(ctx context.Context, c *quota.Credential, operations []string, charges []quota.Charge, useReserve bool) (quota.Decision, error) {
	return patiently(l, c, func(of *slidinglog.Ledger) (quota.Decision, error) {
		return of.Peek(ctx, c, operations, charges, useReserve)
	})
}

func (l *sharedLedger) Settle(ctx context.Context, c *quota.Credential, s quota.Settlement) (quota.Decision, error) {
	return patiently(l, c, func(of *slidinglog.Ledger) (quota.Decision, error) { return of.Settle(ctx, c, s) })
}

func (l *sharedLedger) Adjust(ctx context.Context, c *quota.Credential, a quota.Adjustment) (quota.Decision, error) {
	return patiently(l, c, func(of *slidinglog.Ledger) (quota.Decision, error) { return of.Adjust(ctx, c, a) })
}

func (l *sharedLedger) ChangeLimit(ctx context.Context, c *quota.Credential, k quota.Change) (bool, error) {
	return patiently(l, c, func(of *slidinglog.Ledger) (bool, error) { return of.ChangeLimit(ctx, c, k) })
}

func (l *sharedLedger) Reset(ctx context.Context, c *quota.Credential, by quota.Caller, note string) error {
	_, err := patiently(l, c, func(of *slidinglog.Ledger) (struct{}, error) { return struct{}{}, of.Reset(ctx, c, by, note) })
	return err
}

func (l *sharedLedger) Usage(ctx context.Context, c *quota.Credential) (quota.Usage, error) {
	return patiently(l, c, func(of *slidinglog.Ledger) (quota.Usage, error) { return of.Usage(ctx, c) })
}

func (l *sharedLedger) Log(ctx context.Context, c *quota.Credential, q quota.LogQuery) (quota.LogPage, error) {
	return patiently(l, c, func(of *slidinglog.Ledger) (quota.LogPage, error) { return of.Log(ctx, c, q) })
}

func TestLedger(t *testing.T) { ledgertest.Run(t, embedded()) }

func TestRandomHistories(t *testing.T) { ledgertest.Random(t, embedded()) }

func TestSharedLedger(t *testing.T) { ledgertest.Run(t, shared()) }

func TestRandomHistoriesOfTwoHosts(t *testing.T) { ledgertest.Random(t, shared()) }
