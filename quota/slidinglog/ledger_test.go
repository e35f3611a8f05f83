package slidinglog_test

import (
	"testing"

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

func TestLedger(t *testing.T) { ledgertest.Run(t, embedded()) }

func TestRandomHistories(t *testing.T) { ledgertest.Random(t, embedded()) }
