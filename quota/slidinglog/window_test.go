package slidinglog_test

import (
	"context"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// A host that comes to a log with a longer window than the other hosts have: these have dropped what
// that window would have to count, so it counts once it is covered. A reset covers it.
func TestALongerWindowOnANewHost(t *testing.T) {
	now := time.UnixMilli(1795345190000)
	store := &ledgertest.SimStore{Clock: func() int64 { return now.UnixMilli() }}
	open := func(window time.Duration) (*slidinglog.Ledger, *quota.Credential) {
		c := (&quota.Credential{
			Name: "api", Limits: []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(window)}},
			Operations: map[string]quota.Cost{"list": {Every: 1}},
		}).Prepared()
		l, err := slidinglog.Open(slidinglog.Config{
			File: ledgertest.NewMemFile(), Store: store, Credentials: []*quota.Credential{c},
			Clock: func() time.Time { return now }, Manual: true, Pause: func(context.Context, time.Duration) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		for !l.Serves(c) {
			l.Follow(t.Context())
			now = now.Add(250 * time.Millisecond)
		}
		return l, c
	}
	catchingUp := func(l *slidinglog.Ledger, c *quota.Credential) time.Time {
		u, err := l.Usage(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return u.Limits[0].CatchingUp
	}
	one, c := open(time.Hour)
	for range 6 {
		asks := []quota.Ask{{Request: quota.Request{Credential: c.Name, Operation: "list", Count: 9}, Charges: []quota.Charge{{Limit: "daily", Units: 9}}}}
		if d, err := one.Acquire(t.Context(), c, asks); err != nil || !d[0].Granted() {
			t.Fatal(d, err)
		}
		now = now.Add(30 * time.Minute)
	}
	other, longer := open(24 * time.Hour)
	if at := catchingUp(other, longer); at.Before(now.Add(22*time.Hour)) || at.After(now.Add(23*time.Hour+time.Minute)) {
		t.Errorf("at %v, the longer window is covered at %v", now, at)
	}
	same, _ := open(time.Hour)
	if at := catchingUp(same, c); !at.IsZero() {
		t.Errorf("another host with the same window covers it at %v", at)
	}
	if err := one.Reset(t.Context(), c, quota.Caller{}, "test"); err != nil {
		t.Fatal(err)
	}
	if at := catchingUp(other, longer); !at.IsZero() {
		t.Errorf("after a reset, the longer window is covered at %v", at)
	}
}
