package clientlimit_test

import (
	"context"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
)

// A countingStore counts calls, and those swaps that write.
type countingStore struct {
	*ledgertest.ClientStore
	calls, writes int
}

func (s *countingStore) Swap(ctx context.Context, all []*clientlimit.Swap) {
	s.calls++
	for _, one := range all {
		if one.Writes {
			s.writes++
		}
	}
	s.ClientStore.Swap(ctx, all)
}

// A grant by a record that is kept takes one call of the store. If another host has replaced it, or the clock of the
// store is not where it was believed, it is refused there and read. A denial is read each time.
func TestKeptRecords(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	store := &countingStore{ClientStore: ledgertest.NewClientStore(clock.Now)}
	process := clock.Now() // of this process
	l := clientlimit.Decider{Store: store, Kept: clientlimit.NewCache(func() time.Time { return process })}
	other := clientlimit.Decider{Store: store.ClientStore}
	c := &clientlimit.Clients{
		Name: "public", Algorithm: clientlimit.Log,
		Limits: []quota.Limit{{Name: "minute", Units: 10, Window: quota.Sliding(time.Minute)}},
	}
	pass := func(d time.Duration) {
		clock.Add(d)
		process = process.Add(d)
	}
	for _, step := range []struct {
		what    string
		before  func()
		units   quota.Units
		granted bool
		used    quota.Units
		calls   int
	}{
		{"nobody has asked", func() {}, 1, true, 1, 2},
		{"it is kept", func() {}, 1, true, 2, 1},
		{"a while later", func() { pass(5 * time.Second) }, 1, true, 3, 1},
		{"another host was first", func() {
			other.Decide(t.Context(), c, []clientlimit.Ask{{Subject: "=alice", Units: 4}})
		}, 1, true, 8, 2},
		{"what another host took is missing here", func() {
			other.Decide(t.Context(), c, []clientlimit.Ask{{Subject: "=alice", Units: 2}})
		}, 1, false, 10, 1},
		{"a denial is read", func() {}, 1, false, 10, 1},
		{"another host has reset it", func() {
			if err := other.Reset(t.Context(), c, clientlimit.Ask{Subject: "=alice"}); err != nil {
				t.Fatal(err)
			}
		}, 5, true, 5, 2},
		{"the clock of the store was set back", func() { clock.Add(-time.Second) }, 1, true, 6, 2},
		{"this process stood still", func() { clock.Add(time.Second) }, 1, true, 7, 2},
		{"it is kept no longer", func() { pass(25 * time.Second) }, 1, true, 8, 2},
	} {
		step.before()
		store.calls = 0
		d := l.Decide(t.Context(), c, []clientlimit.Ask{{Subject: "=alice", Units: step.units}})[0]
		if d.Err != nil || d.Granted() != step.granted || store.calls != step.calls {
			t.Errorf("%s: granted: %v, %v, in %d calls; want %v in %d", step.what, d.Granted(), d.Err, store.calls, step.granted, step.calls)
		}
		u, err := other.Usage(t.Context(), c, clientlimit.Ask{Subject: "=alice"})
		if err != nil || u.Limits[0].Used != step.used {
			t.Errorf("%s: %d units are used, %v, want %d", step.what, u.Limits[0].Used, err, step.used)
		}
	}
}

// A subject that is denied costs no write, and asks of which some do not fit are decided by what is there.
func TestKeptRecordsOfABatch(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	store := &countingStore{ClientStore: ledgertest.NewClientStore(clock.Now)}
	l := clientlimit.Decider{Store: store, Kept: clientlimit.NewCache(clock.Now)}
	c := &clientlimit.Clients{
		Name: "public", Algorithm: clientlimit.Counter,
		Limits: []quota.Limit{{Name: "minute", Units: 10, Window: quota.Sliding(time.Minute)}},
	}
	ask := func(units ...quota.Units) (granted []bool) {
		var asks []clientlimit.Ask
		for _, n := range units {
			asks = append(asks, clientlimit.Ask{Subject: "=alice", Units: n})
		}
		store.writes = 0
		for _, d := range l.Decide(t.Context(), c, asks) {
			granted = append(granted, d.Granted())
		}
		return granted
	}
	ask(6)
	if got := ask(3, 2, 1); !got[0] || got[1] || !got[2] || store.writes != 1 {
		t.Errorf("granted: %v, in %d writes", got, store.writes)
	}
	if got := ask(1); got[0] || store.writes != 0 {
		t.Errorf("granted: %v, in %d writes", got, store.writes)
	}
}
