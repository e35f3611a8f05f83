package boltledger

import (
	"path/filepath"
	"testing"
	"time"

	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
)

func clientHarness() ledgertest.ClientHarness {
	return ledgertest.ClientHarness{Open: func(t testing.TB, clock *ledgertest.Clock) (clientlimit.Ledger, func() clientlimit.Ledger) {
		path := filepath.Join(t.TempDir(), "clients.db")
		l := openClients(t, path, clock.Now)
		t.Cleanup(func() { l.Close() })
		return l, func() clientlimit.Ledger {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l = openClients(t, path, clock.Now)
			return l
		}
	}}
}

// openClients opens a file that is whole, without what sweeps it.
func openClients(t testing.TB, path string, clock func() time.Time) *Clients {
	t.Helper()
	l := &Clients{path: path, clock: clock, stop: make(chan struct{}), onSetAside: func(_ string, why error) {
		t.Errorf("the file was set aside: %v", why)
	}}
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestClients(t *testing.T) { ledgertest.RunClients(t, clientHarness()) }

func TestRandomClients(t *testing.T) { ledgertest.RandomClients(t, clientHarness()) }
