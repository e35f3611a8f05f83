package ledgertest

//ci:norace

import (
	"testing"
)

func TestClientModel(t *testing.T) {
	RunClients(t, ClientHarness{Open: func(_ testing.TB, clock *Clock) (ClientLedger, func() ClientLedger) {
		m := NewClientModel(clock.Now)
		return m, func() ClientLedger { return m }
	}})
}
