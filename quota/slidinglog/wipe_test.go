package slidinglog_test

import (
	"context"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// A reset of a log that is ahead of the clock empties it. What hosts have said in it has later places
// than what they say afterwards: they count as there, and say hello again.
func TestHostsAfterTheLogWasEmptied(t *testing.T) {
	now := time.UnixMilli(1795345190000)
	store := &ledgertest.SimStore{Clock: func() int64 { return now.UnixMilli() }}
	c := (&quota.Credential{
		Name: "api", Limits: []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}},
	}).Prepared()
	open := func(file *ledgertest.MemFile) *slidinglog.Ledger {
		l, err := slidinglog.Open(slidinglog.Config{
			File: file, Store: store, Credentials: []*quota.Credential{c},
			Clock: func() time.Time { return now }, Manual: true, Pause: func(context.Context, time.Duration) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	follow := func(hosts ...*slidinglog.Ledger) {
		for range 60 {
			now = now.Add(250 * time.Millisecond)
			for _, l := range hosts {
				l.Follow(t.Context())
			}
		}
	}
	file := ledgertest.NewMemFile()
	one, other := open(ledgertest.NewMemFile()), open(file)
	follow(one, other)
	now = now.Add(10 * time.Minute) // the clock is wrong
	follow(one, other)
	if err := other.Close(); err != nil { // it says that it stops
		t.Fatal(err)
	}
	follow(one)
	now = now.Add(-10 * time.Minute)
	if err := one.Reset(t.Context(), c, quota.Caller{}, "test"); err != nil {
		t.Fatal(err)
	}
	other = open(file)
	follow(one, other)
	for name, l := range map[string]*slidinglog.Ledger{"the host that emptied it": one, "the other host": other} {
		if !one.Knows(c, l.Host()) {
			t.Errorf("%s does not count as there", name)
		}
		hello := false
		for _, p := range store.Records(c.Name) {
			r, err := slidinglog.DecodeRecord(p)
			if err != nil {
				t.Fatal(err)
			}
			hello = hello || r.Host == l.Host() && r.Says != nil && r.Says.Kind == slidinglog.Hello
		}
		if !hello {
			t.Errorf("the log has no hello of %s", name)
		}
	}
}
