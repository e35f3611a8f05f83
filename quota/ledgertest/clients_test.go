package ledgertest

import (
	"testing"

	"quotad/quota/clientlimit"
)

func TestClientModel(t *testing.T) {
	RunClients(t, ClientHarness{Open: func(_ testing.TB, clock *Clock) (clientlimit.Ledger, func() clientlimit.Ledger) {
		m := NewClientModel(clock.Now)
		return m, func() clientlimit.Ledger { return m }
	}})
}
