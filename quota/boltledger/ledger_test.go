package boltledger

import (
	"path/filepath"
	"sync"
	"testing"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// openLedger opens the embedded ledger on a file.
func openLedger(t testing.TB, file Config, clock *ledgertest.Clock) *slidinglog.Ledger {
	t.Helper()
	l, err := tryLedger(file, clock)
	must(t, err)
	return l
}

func tryLedger(config Config, clock *ledgertest.Clock) (*slidinglog.Ledger, error) {
	file, err := Open(config)
	if err != nil {
		return nil, err
	}
	c := slidinglog.Config{File: file, Manual: clock != nil}
	if clock != nil {
		c.Clock = clock.Now
	}
	l, err := slidinglog.Open(c)
	if err != nil {
		file.Close()
	}
	return l, err
}

// A folding ledger folds one time after the other until it is closed: what it decides does
// not depend on what has been folded.
type folding struct {
	*slidinglog.Ledger
	stop chan struct{}
	done sync.WaitGroup
}

func startFolding(t testing.TB, l *slidinglog.Ledger) *folding {
	f := &folding{Ledger: l, stop: make(chan struct{})}
	f.done.Go(func() {
		for {
			select {
			case <-f.stop:
				return
			default:
			}
			if err := l.Fold(); err != nil {
				t.Error(err)
			}
		}
	})
	return f
}

func (f *folding) Close() error {
	close(f.stop)
	f.done.Wait()
	return f.Ledger.Close()
}

// embedded opens ledgers on files, which are folded all the time.
func embedded(unsynced bool) ledgertest.Harness {
	return ledgertest.Harness{Open: func(t testing.TB, clock *ledgertest.Clock) (quota.Ledger, func() quota.Ledger) {
		config := Config{Path: filepath.Join(t.TempDir(), "ledger.db"), Unsynced: unsynced}
		open := func() quota.Ledger { return startFolding(t, openLedger(t, config, clock)) }
		return open(), open
	}}
}

func TestLedger(t *testing.T) { ledgertest.Run(t, embedded(false)) }

func TestRandomHistories(t *testing.T) { ledgertest.Random(t, embedded(true)) }
