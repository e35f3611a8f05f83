package slidinglog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// An otherStore is another one than the host had.
type otherStore struct{ *ledgertest.SimStore }

func (otherStore) Name() string { return "another one" }

// A host that ended while it read a lost log again does not put that into another store.
func TestAnotherStoreAfterALoss(t *testing.T) {
	now := time.UnixMilli(1795345190000)
	clock := func() int64 { return now.UnixMilli() }
	c := (&quota.Credential{
		Name: "api", Limits: []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}},
	}).Prepared()
	open := func(file *ledgertest.MemFile, store slidinglog.Store) *slidinglog.Ledger {
		l, err := slidinglog.Open(slidinglog.Config{
			File: file, Store: store, Credentials: []*quota.Credential{c},
			Clock: func() time.Time { return now }, Manual: true, Pause: func(context.Context, time.Duration) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	asks := []quota.Ask{{Request: quota.Request{Credential: c.Name, Operation: "list", Count: 1}, Charges: []quota.Charge{{Limit: "daily", Units: 1}}}}
	file := ledgertest.NewMemFile()
	store := &fadingStore{SimStore: &ledgertest.SimStore{Clock: clock}, answers: 1000}
	l := open(file, store)
	for !l.Serves(c) {
		l.Follow(t.Context())
		now = now.Add(250 * time.Millisecond)
	}
	if d, err := l.Acquire(t.Context(), c, asks); err != nil || !d[0].Granted() {
		t.Fatal(d, err)
	}
	store.Flush(c.Name)
	store.answers = 2
	now = now.Add(2 * time.Second)
	l.Follow(t.Context())
	if err := l.Fold(); err != nil {
		t.Fatal(err)
	}

	other := otherStore{&ledgertest.SimStore{Clock: clock}}
	l = open(file.Crash(false, 0), other)
	for range 100 {
		l.Follow(t.Context())
		now = now.Add(250 * time.Millisecond)
	}
	if d, err := l.Acquire(t.Context(), c, asks); !errors.Is(err, slidinglog.ErrForeign) || len(other.Records(c.Name)) > 0 {
		t.Errorf("%+v, %v; %d records in the other store", d, err, len(other.Records(c.Name)))
	}
}
