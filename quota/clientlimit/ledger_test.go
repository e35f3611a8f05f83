package clientlimit_test

import (
	"testing"

	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
)

func harness() ledgertest.ClientHarness {
	return ledgertest.ClientHarness{Open: func(_ testing.TB, clock *ledgertest.Clock) (ledgertest.ClientLedger, func() ledgertest.ClientLedger) {
		l := clientlimit.Ledger{Store: ledgertest.NewClientStore(clock.Now)}
		return l, func() ledgertest.ClientLedger { return l }
	}}
}

func TestRecords(t *testing.T) { ledgertest.RunClients(t, harness()) }

func TestRandomRecords(t *testing.T) { ledgertest.RandomClients(t, harness()) }
