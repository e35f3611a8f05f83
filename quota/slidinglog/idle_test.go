package slidinglog_test

import (
	"context"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// An idle host has the end of the log, to which a log has fallen back. So it reads of the loss as of any
// other record. It must say that it is there, or the other hosts wait for it ten times as long.
func TestAnIdleHostIsThereAfterALoss(t *testing.T) {
	now := time.UnixMilli(1795345190000)
	store := &ledgertest.SimStore{Clock: func() int64 { return now.UnixMilli() }}
	c := (&quota.Credential{
		Name: "api", Limits: []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}},
	}).Prepared()
	var hosts []*slidinglog.Ledger
	poll := func() {
		now = now.Add(250 * time.Millisecond)
		for _, l := range hosts {
			l.Poll()
		}
	}
	for range 2 {
		l, err := slidinglog.Open(slidinglog.Config{
			File: ledgertest.NewMemFile(), Store: store, Credentials: []*quota.Credential{c},
			Clock: func() time.Time { return now }, Manual: true, Pause: func(context.Context, time.Duration) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		for hosts = append(hosts, l); !l.Serves(c); {
			poll()
		}
	}
	for range 20 {
		poll()
	}
	asks := []quota.Ask{{Request: quota.Request{Credential: c.Name, Operation: "list", Count: 1}, Charges: []quota.Charge{{Limit: "daily", Units: 1}}}}
	if d, err := hosts[0].Acquire(t.Context(), c, asks); err != nil || !d[0].Granted() {
		t.Fatal(d, err)
	}
	store.DropLast(1)
	fell := now
	for again := false; !again || !hosts[0].Serves(c); poll() {
		again = again || !hosts[0].Serves(c)
	}
	if took := now.Sub(fell); took > 6*time.Second {
		t.Errorf("nothing was granted for %v after the loss", took)
	}
}

// A host has stopped, and the log falls back to before it said so. The other host has read that, and
// all that the host knew, so it does not wait for it.
func TestAHostThatHasStoppedIsNotWaitedFor(t *testing.T) {
	now := time.UnixMilli(1795345190000)
	store := &ledgertest.SimStore{Clock: func() int64 { return now.UnixMilli() }}
	c := (&quota.Credential{
		Name: "api", Limits: []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}},
	}).Prepared()
	open := func() *slidinglog.Ledger {
		l, err := slidinglog.Open(slidinglog.Config{
			File: ledgertest.NewMemFile(), Store: store, Credentials: []*quota.Credential{c},
			Clock: func() time.Time { return now }, Manual: true, Pause: func(context.Context, time.Duration) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		for !l.Serves(c) {
			now = now.Add(250 * time.Millisecond)
			l.Follow(t.Context())
		}
		return l
	}
	one, other := open(), open()
	for range 20 {
		now = now.Add(250 * time.Millisecond)
		one.Follow(t.Context())
		other.Follow(t.Context())
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Second)
	one.Follow(t.Context())
	store.DropLast(1)
	fell := now
	for again := false; !again || !one.Serves(c); one.Follow(t.Context()) {
		again = again || !one.Serves(c)
		now = now.Add(250 * time.Millisecond)
	}
	if took := now.Sub(fell); took > 6*time.Second {
		t.Errorf("nothing was granted for %v after the loss", took)
	}
}
