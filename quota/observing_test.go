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

// A decision is refused by the enforced limit that is closed the longest, until that opens and the windows
// have room.
func TestClosedLimits(t *testing.T) {
	closed := func(name string, until time.Duration) quota.LimitState {
		return quota.LimitState{Limit: quota.Limit{Name: name, Units: 10}, Closed: quota.Closed{Until: nine.Add(until)}}
	}
	observing := closed("trial", 3*time.Hour)
	observing.DryRun = true
	for _, row := range []struct {
		name  string
		d     quota.Decision
		limit string
		waits time.Duration
	}{
		{"no limit is closed", quota.Decision{Limits: []quota.LimitState{{Limit: quota.Limit{Name: "daily"}}}}, "", 0},
		{"one is", quota.Decision{Limits: []quota.LimitState{closed("daily", time.Hour)}}, "daily", time.Hour},
		{"the second for longer", quota.Decision{Limits: []quota.LimitState{closed("daily", time.Hour), closed("search", 2*time.Hour)}}, "search", 2 * time.Hour},
		{"the first for longer", quota.Decision{Limits: []quota.LimitState{closed("daily", 2*time.Hour), closed("search", time.Hour)}}, "daily", 2 * time.Hour},
		{"one that is not enforced", quota.Decision{Limits: []quota.LimitState{observing}}, "", 0},
		{"its window has room later", quota.Decision{
			Reason: quota.LimitExceeded, Limit: "daily", RetryAt: nine.Add(5 * time.Hour), Limits: []quota.LimitState{closed("daily", time.Hour)},
		}, "daily", 5 * time.Hour},
	} {
		d := row.d
		d.Close(nine)
		if d.Limit != row.limit || d.Granted() != (row.limit == "") || d.RetryAfter != row.waits {
			t.Errorf("%s: got %+v, want %q to refuse for %v", row.name, d, row.limit, row.waits)
		}
	}
	c := quota.Closed{Until: nine}
	if c.At(nine.Add(-time.Millisecond)).IsZero() || !c.At(nine).IsZero() {
		t.Error("a closing does not end at its time")
	}
}
