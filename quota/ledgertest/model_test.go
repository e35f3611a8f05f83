package ledgertest

import (
	"testing"

	"quotad/quota"
)

func TestModel(t *testing.T) {
	Run(t, Harness{Open: func(_ testing.TB, clock *Clock) (quota.Ledger, func() quota.Ledger) {
		m := NewModel(clock.Now)
		return m, func() quota.Ledger { return m }
	}})
}
