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
		r := quota.Request{Credential: "youtube", Operation: "quota.get", Count: 5}
		if d, err := k.DryRun(t.Context(), r); err != nil || !d.Granted() || d.Fits(5, false) != 5 {
			t.Errorf("dry run: got %+v, %v, want granted", d, err)
		}
		if d, err := k.Peek(t.Context(), "youtube", quota.Calls{Count: map[string]quota.Units{"quota.get": 2}}, nil, false); err != nil || !d.Granted() {
			t.Errorf("peek: got %+v, %v, want granted", d, err)
		}
	})
}

// A cost of 0 in one limit is one that the limit does not count; 0 in all of them is free, for
// whom no limit with a cost counts, too.
func TestACostOfZeroInALimit(t *testing.T) {
	c := youtube()
	c.Limits = append(c.Limits, quota.Limit{Name: "share", Units: 10, Window: quota.Sliding(time.Hour), Jobs: []string{"backfill"}})
	c.Operations["own"] = quota.Cost{Per: map[string]quota.Units{"daily": 0, "share": 5}}
	if wrong := c.Validate(); wrong != nil {
		t.Fatal(wrong)
	}
	for job, want := range map[string]quota.Units{"backfill": 5, "": 0} {
		if charges, err := c.Charges("own", 1, job); err != nil || quota.Max(charges) != want {
			t.Errorf("job %q: got %v, %v, want %d units", job, charges, err, want)
		}
	}
	c.Limits = append(c.Limits, quota.Limit{Name: "idle", Units: 10, Window: quota.Sliding(time.Hour), Only: []string{"own"}})
	if wrong := c.Validate(); len(wrong) != 1 || wrong[0].Message != `no operation costs anything in it, so it would deny nothing: name it in the operations that it should count` {
		t.Errorf("got %v, want that no operation costs anything in idle", wrong)
	}
}
