package boltledger

import (
	"path/filepath"
	"testing"

	"quotad/quota"
	"quotad/quota/ledgertest"
)

func harness() ledgertest.Harness {
	return ledgertest.Harness{Open: func(t testing.TB, clock *ledgertest.Clock) (quota.Ledger, func() quota.Ledger) {
		config := Config{Path: filepath.Join(t.TempDir(), "ledger.db"), Clock: clock.Now}
		open := func() quota.Ledger {
			l, err := Open(config)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		return open(), open
	}}
}

func TestLedger(t *testing.T) { ledgertest.Run(t, harness()) }

func TestRandomHistories(t *testing.T) { ledgertest.Random(t, harness()) }
