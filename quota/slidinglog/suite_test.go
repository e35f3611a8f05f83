package slidinglog

import (
	"testing"

	"quotad/lua"
	"quotad/quota"
	"quotad/quota/ledgertest"
)

// open opens a ledger that polls only when a test lets it.
func open(t testing.TB, config Config) *Ledger {
	t.Helper()
	config.Manual = true
	l := Open(config)
	t.Cleanup(func() { l.Close() })
	return l
}

func configure(l quota.Ledger, credentials []*quota.Credential) error {
	return l.(*Ledger).SetCredentials(credentials, nil)
}

// alone is one host on a Memory of some sources. A ledger that opens again has its journal, and an empty Memory.
func alone(sources map[string]string) ledgertest.Harness {
	return ledgertest.Harness{Configure: configure,
		Open: func(t testing.TB, clock *ledgertest.Clock) (quota.Ledger, func() quota.Ledger) {
			dir := t.TempDir()
			reopen := func() quota.Ledger {
				return open(t, Config{Engine: NewMemoryOf(clock.Now, sources), Dir: dir})
			}
			return reopen(), reopen
		},
	}
}

// A sharedMemory is one that hosts share, as a Redis is shared: it stays when one of them stops.
type sharedMemory struct{ *Memory }

func (sharedMemory) Shared() bool { return true }

// hosts are two hosts on one Memory.
func hosts(sources map[string]string) ledgertest.Harness {
	var engine sharedMemory // of the history that began last
	begin := func(t testing.TB) quota.Ledger {
		return open(t, Config{Engine: engine, Dir: t.TempDir()})
	}
	return ledgertest.Harness{Configure: configure, Join: begin,
		Open: func(t testing.TB, clock *ledgertest.Clock) (quota.Ledger, func() quota.Ledger) {
			engine = sharedMemory{NewMemoryOf(clock.Now, sources)}
			return begin(t), func() quota.Ledger { return begin(t) }
		},
	}
}

// usual are the scripts as they are, and small those that stop after a few entries: then calls go on in pages.
func usual() map[string]string { return lua.All(lua.Bounds{Work: 500, Walk: 100, Page: 10, Trim: 200}) }
func small() map[string]string { return lua.All(lua.Bounds{Work: 3, Walk: 2, Page: 2, Trim: 2}) }

func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, alone(usual()))
}

func TestLedgerInSmallPages(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, alone(small()))
}

func TestLedgerOfTwoHosts(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, hosts(usual()))
}

func TestRandom(t *testing.T) {
	t.Parallel()
	ledgertest.Random(t, alone(usual()), 20)
}

func TestRandomInSmallPages(t *testing.T) {
	t.Parallel()
	ledgertest.Random(t, alone(small()), 10)
}

func TestRandomOfTwoHosts(t *testing.T) {
	t.Parallel()
	ledgertest.Random(t, hosts(small()), 20)
}

var noError = ledgertest.Must
