package quota_test

import (
	"errors"
	"testing"
	"time"

	"quotad/quota"
)

// A limit that is not enforced counts and says what it would have refused. It refuses nothing, whether the
// ledger can be reached or not, and what is left is that of the limits that refuse.
func TestALimitThatOnlyObserves(t *testing.T) {
	k, ledger := service(t)
	c := youtube()
	c.Limits = append(c.Limits, quota.Limit{Name: "trial", Units: 10, Window: quota.Sliding(time.Hour), DryRun: true})
	if err := k.SetCredentials([]*quota.Credential{c}); err != nil {
		t.Fatal(err)
	}
	d := acquire(t, k, "videos.list", 14)
	if would := d.WouldDeny(false); !d.Granted() || d.Remaining() != 936 || len(would) != 1 || would[0] != (quota.Shortage{Limit: "trial", Missing: 4}) {
		t.Errorf("got %+v, %d left, would deny %+v, want a grant that trial would have denied", d, d.Remaining(), would)
	}
	ledger.away = true
	if d, err := k.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 14}); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("without the ledger: got %+v, %v, want that nobody decides", d, err)
	}
}

// A closing ends at its time.
func TestClosed(t *testing.T) {
	c := quota.Closed{Until: nine}
	if c.At(nine.Add(-time.Millisecond)).IsZero() || !c.At(nine).IsZero() {
		t.Error("a closing does not end at its time")
	}
}
