package quota_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
)

func lend(t *testing.T, k *quota.Service, l quota.Change) quota.Decision {
	t.Helper()
	l.Kind = quota.KindLoan
	d, _, err := k.ChangeLimit(t.Context(), "youtube", l)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestLoansThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := service(t)
		in := func(d time.Duration) time.Time { return time.Now().Add(d) }
		for _, test := range []struct {
			loan quota.Change
			want string
		}{
			{quota.Change{Limit: "daily", Units: -1, Until: in(time.Hour)}, "the units of a loan must be a whole number from 1"},
			{quota.Change{Limit: "daily", Units: quota.MaxUnits, Until: in(time.Hour)}, `limit "daily" would have more than 9,007,199,254,740,991 units`},
			{quota.Change{Limit: "daily", Units: 1, Until: in(0)}, "has passed: nothing is lent"},
			{quota.Change{Limit: "daily", Units: 1, Until: in(24*time.Hour + time.Millisecond)}, `limit "daily" counts in any 24h, and is lent to for 24h at most`},
			{quota.Change{Limit: "daily", Units: 1, Until: in(time.Hour), Note: strings.Repeat("x", 2001)}, "the note has 2001 bytes"},
		} {
			if d := lend(t, k, test.loan); d.Reason != quota.BadRequest || !strings.Contains(d.Detail, test.want) {
				t.Errorf("%+v: got %+v, want %q", test.loan, d, test.want)
			}
		}
		for range 16 {
			if d := lend(t, k, quota.Change{Limit: "daily", Units: 1, Until: in(24 * time.Hour)}); d.Reason != "" {
				t.Fatalf("got %+v", d)
			}
		}
		if d := lend(t, k, quota.Change{Limit: "daily", Units: 1, Until: in(time.Hour)}); !strings.Contains(d.Detail, "has 16 loans already, the most at once: end them first, with quotactl lend youtube daily 0") {
			t.Errorf("got %+v for one loan too many", d)
		}
		if d := lend(t, k, quota.Change{Limit: "dialy", Units: 1, Until: in(time.Hour)}); d.Reason != quota.UnknownLimit ||
			d.Detail != `credential "youtube" has no limit "dialy"` || d.Hint != "did you mean daily?" {
			t.Errorf("got %+v for an unknown limit", d)
		}
		if d, changed, err := k.ChangeLimit(t.Context(), "vimeo", quota.Change{Kind: quota.KindLoan, Limit: "daily"}); d.Reason != quota.UnknownCredential || changed || err != nil {
			t.Errorf("got %+v, %v, %v", d, changed, err)
		}
	})
}

// The longest loan is as long as the window, and seven days of one that is longer.
func TestLongestLoan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := youtube()
		c.Limits = append(c.Limits, quota.Limit{Name: "monthly", Units: 1000, Window: quota.Calendar(quota.Month, time.UTC)},
			quota.Limit{Name: "minute", Units: 1000, Window: quota.Sliding(time.Minute)})
		k, err := quota.NewService(ledgertest.NewModel(time.Now), []*quota.Credential{c}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for limit, longest := range map[string]time.Duration{"daily": 24 * time.Hour, "monthly": 7 * 24 * time.Hour, "minute": time.Minute} {
			if d := lend(t, k, quota.Change{Limit: limit, Units: 1, Until: time.Now().Add(longest)}); d.Reason != "" {
				t.Errorf("%s: got %+v for %v", limit, d, longest)
			}
			if d := lend(t, k, quota.Change{Limit: limit, Units: 1, Until: time.Now().Add(longest + time.Millisecond)}); d.Reason != quota.BadRequest {
				t.Errorf("%s: got %+v for more than %v", limit, d, longest)
			}
		}
	})
}

// A request that is larger than its limit fits while enough is lent, and never after that.
func TestLoanOfLargeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := service(t)
		until := time.Now().Add(2 * time.Hour)
		large := quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1200}
		if d := acquire(t, k, "videos.list", 1200); d.Reason != quota.CostExceedsLimit {
			t.Fatalf("got %+v before the loan", d)
		}
		lend(t, k, quota.Change{Limit: "daily", Units: 500, Until: until})
		if d := acquire(t, k, "videos.list", 1451); d.Reason != quota.CostExceedsLimit || !d.RetryAt.IsZero() {
			t.Errorf("got %+v for one unit more than there is", d)
		}
		if e, err := k.Why(t.Context(), large); err != nil || !e.Granted() || e.Fits != 1450 {
			t.Errorf("why says %+v, %v", e, err)
		}
		if d, err := k.Peek(t.Context(), "youtube", quota.Calls{Count: map[string]quota.Units{"videos.list": 1200}}, nil, false); err != nil || !d.Granted() {
			t.Errorf("a peek says %+v, %v", d, err)
		}
		if d := acquire(t, k, "videos.list", 1200); !d.Granted() {
			t.Errorf("got %+v under the loan", d)
		}
		// What is used leaves after the loan: it would never fit again.
		if d := acquire(t, k, "videos.list", 1200); d.Reason != quota.CostExceedsLimit || !d.RetryAt.IsZero() {
			t.Errorf("got %+v of a second one", d)
		}
		if e, err := k.Why(t.Context(), large); err != nil || e.Reason != quota.CostExceedsLimit || len(e.Limits) != 1 {
			t.Errorf("why says %+v, %v", e, err)
		}
		if d := acquire(t, k, "videos.list", 900); d.Reason != quota.LimitExceeded || d.RetryAfter != 24*time.Hour {
			t.Errorf("got %+v, want it denied until the large one has left", d)
		}
		if d := acquire(t, k, "videos.list", 250); !d.Granted() {
			t.Errorf("got %+v of what is left", d)
		}
		time.Sleep(time.Until(until))
		if d := acquire(t, k, "videos.list", 1); d.Reason != quota.LimitExceeded || d.RetryAfter != 22*time.Hour || d.Limits[0].Remaining() != 0 {
			t.Errorf("got %+v after the loan", d)
		}
	})
}
