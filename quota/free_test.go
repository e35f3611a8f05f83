package quota_test

import (
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
)

// A call that costs nothing is granted while its limit is exhausted, closed, and while the ledger
// is away; no ledger is asked.
func TestAFreeOperationAsksNoLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, ledger := service(t)
		c := youtube()
		c.Operations["quota.get"] = quota.Cost{}
		c.Operations["i18n.list"] = quota.Cost{Per: map[string]quota.Units{"daily": 0}}
		if err := k.SetCredentials([]*quota.Credential{c}); err != nil {
			t.Fatal(err)
		}
		acquire(t, k, "videos.list", 950)
		if d := acquire(t, k, "videos.list", 1); d.Reason != quota.LimitExceeded {
			t.Fatalf("got %+v, want a denial of what costs a unit", d)
		}
		closing := quota.Change{Kind: quota.KindClosing, Limit: "daily", Until: time.Now().Add(time.Hour), Note: "gone"}
		if _, changed, err := k.ChangeLimit(t.Context(), "youtube", closing); !changed || err != nil {
			t.Fatal(changed, err)
		}
		ledger.away = true
		before := ledger.calls
		free := func(operation string, count quota.Units) {
			t.Helper()
			r := quota.Request{Credential: "youtube", Operation: operation, Count: count,
				Caller: quota.Caller{Job: "trending", Region: "US", Run: "1"}}
			d, err := k.Acquire(t.Context(), r)
			if err != nil || !d.Granted() || d.Units != 0 || d.GrantID != "" {
				t.Fatalf("%s: got %+v, %v, want it free", operation, d, err)
			}
		}
		free("quota.get", 1)
		free("quota.get", 3)
		free("i18n.list", 7)
		if asked := ledger.calls - before; asked != 0 {
			t.Errorf("the ledger was asked %d times, want never", asked)
		}
	})
}
