package boltledger

import (
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
)

func clientHarness() ledgertest.ClientHarness {
	return ledgertest.ClientHarness{Open: func(t testing.TB, clock *ledgertest.Clock) (ledgertest.ClientLedger, func() ledgertest.ClientLedger) {
		path := filepath.Join(t.TempDir(), "clients.db")
		l := openClients(t, path, clock.Now)
		t.Cleanup(func() { l.Close() })
		kept := clientlimit.NewCache(clock.Now)
		return clientlimit.Decider{Store: l, Kept: kept}, func() ledgertest.ClientLedger {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l = openClients(t, path, clock.Now)
			return clientlimit.Decider{Store: l, Kept: kept}
		}
	}}
}

// openClients opens a file that is whole, without what sweeps it.
func openClients(t testing.TB, path string, clock func() time.Time) *Clients {
	t.Helper()
	l := &Clients{path: path, clock: clock, stop: func() {}, onSetAside: func(_ string, why error) {
		t.Errorf("the file was set aside: %v", why)
	}}
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestClients(t *testing.T) { ledgertest.RunClients(t, clientHarness()) }

// A denial moves nothing: neither a batch of denials nor whoever looks writes to the file.
func TestClientsDenialsWriteNothing(t *testing.T) {
	l := openClients(t, filepath.Join(t.TempDir(), "clients.db"), noon)
	defer l.Close()
	c := onceADay(clientlimit.Log)
	transaction := func() (id int) {
		if err := l.use(false, func(tx *bbolt.Tx) (bool, error) { id = tx.ID(); return false, nil }); err != nil {
			t.Fatal(err)
		}
		return id
	}
	take(t, l, c, "=alice")
	before := transaction()
	for range 10 {
		if n := take(t, l, c, "=alice", "=alice"); n != 0 {
			t.Fatalf("%d granted", n)
		}
	}
	ledger := clientlimit.Decider{Store: l}
	if _, err := ledger.Usage(t.Context(), c, clientlimit.Ask{Subject: "=bob"}); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Reset(t.Context(), c, clientlimit.Ask{Subject: "=bob"}); err != nil {
		t.Fatal(err)
	}
	if after := transaction(); after != before {
		t.Errorf("%d transactions were committed", after-before)
	}
	if n := take(t, l, c, "=alice", "=bob"); n != 1 || transaction() != before+1 {
		t.Errorf("%d granted, %d transactions", n, transaction()-before)
	}
}

// Swaps of one call may be in several buckets, in any order, and in ones that it creates.
func TestSwapsOfManyPlaces(t *testing.T) {
	l := openClients(t, filepath.Join(t.TempDir(), "clients.db"), noon)
	defer l.Close()
	places := []clientlimit.Place{
		{}, {Group: "log a", Subject: "=x"}, {Group: "log b", Subject: "=x"}, {Group: "log a", Subject: "=y"}, {Group: "counter a", Subject: "=x"},
	}
	swap := func(writes bool) (all []*clientlimit.Swap) {
		for i, at := range places {
			all = append(all, &clientlimit.Swap{Place: at, Writes: writes, Next: []byte{byte(i + 1)}})
		}
		l.Swap(t.Context(), all)
		return all
	}
	for i, one := range swap(true) {
		if one.Err != nil || !one.Swapped {
			t.Errorf("place %d: %+v", i, one)
		}
	}
	for i, one := range swap(false) {
		if one.Err != nil || string(one.Found) != string([]byte{byte(i + 1)}) {
			t.Errorf("place %d: %+v", i, one)
		}
	}
}
