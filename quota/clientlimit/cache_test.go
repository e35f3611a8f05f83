package clientlimit_test

import (
	"context"
	"errors"
	"strconv"
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

// A subject of which no record is kept has none as long as the store does not say otherwise, and not while the
// period before may count.
func TestNoRecordIsKept(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	store := &countingStore{ClientStore: ledgertest.NewClientStore(clock.Now)}
	process := clock.Now() // it asks all in an instant
	l := clientlimit.Decider{Store: store, Kept: clientlimit.NewCache(func() time.Time { return process })}
	other := clientlimit.Decider{Store: store.ClientStore}
	c := &clientlimit.Clients{
		Name: "public", Algorithm: clientlimit.Log,
		Limits: []quota.Limit{{Name: "minute", Units: 10, Window: quota.Sliding(time.Minute)}},
	}
	now := clock.Now().UnixMilli()
	counting := clientlimit.Period{Before: "=yesterday", BeforeEndsMs: now + 60_000, EndsMs: now + 86_400_000}
	for _, step := range []struct {
		what    string
		of      clientlimit.Ask
		before  func()
		granted bool
		calls   int
	}{
		{"nothing is known of the store", clientlimit.Ask{Subject: "=alice", Units: 1}, func() {}, true, 2},
		{"another subject", clientlimit.Ask{Subject: "=bob", Units: 1}, func() {}, true, 1},
		{"one that has a record elsewhere", clientlimit.Ask{Subject: "=carol", Units: 3}, func() {
			other.Decide(t.Context(), c, []clientlimit.Ask{{Subject: "=carol", Units: 7}})
		}, true, 2},
		{"one that has spent everything elsewhere", clientlimit.Ask{Subject: "=dave", Units: 1}, func() {
			other.Decide(t.Context(), c, []clientlimit.Ask{{Subject: "=dave", Units: 10}})
		}, false, 1},
		{"more than fits", clientlimit.Ask{Subject: "=erin", Units: 11}, func() {}, false, 1},
		{"while the period before counts", clientlimit.Ask{Subject: "=frank", Units: 1, Period: counting}, func() {}, true, 3},
		{"a clock that was set back", clientlimit.Ask{Subject: "=grace", Units: 1}, func() { clock.Add(-time.Second) }, true, 2},
	} {
		step.before()
		store.calls = 0
		d := l.Decide(t.Context(), c, []clientlimit.Ask{step.of})[0]
		if d.Err != nil || d.Granted() != step.granted || store.calls != step.calls {
			t.Errorf("%s: granted: %v, %v, in %d calls; want %v in %d", step.what, d.Granted(), d.Err, store.calls, step.granted, step.calls)
		}
	}
	if u, err := other.Usage(t.Context(), c, clientlimit.Ask{Subject: "=carol"}); err != nil || u.Limits[0].Used != 10 {
		t.Errorf("%d units of carol are used, %v, want 10", u.Limits[0].Used, err)
	}
}

// A dyingStore answers one call.
type dyingStore struct {
	countingStore
	dies context.CancelFunc
}

func (s *dyingStore) Swap(ctx context.Context, all []*clientlimit.Swap) {
	s.countingStore.Swap(ctx, all)
	if s.calls == 1 {
		return
	}
	s.dies()
	for _, one := range all {
		one.Err = quota.ErrUnavailable
	}
}

// A record that was not known is nobody's who was first: a store that does not answer then is away.
func TestAwayBehindARecordThatWasNotKnown(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	model := ledgertest.NewClientStore(clock.Now)
	kept := clientlimit.NewCache(clock.Now)
	c := &clientlimit.Clients{
		Name: "public", Algorithm: clientlimit.Log,
		Limits: []quota.Limit{{Name: "minute", Units: 10, Window: quota.Sliding(time.Minute)}},
	}
	clientlimit.Decider{Store: model}.Decide(t.Context(), c, []clientlimit.Ask{{Subject: "=alice", Units: 1}})
	clientlimit.Decider{Store: model, Kept: kept}.Decide(t.Context(), c, []clientlimit.Ask{{Subject: "=bob", Units: 1}})
	ctx, cancel := context.WithCancel(t.Context())
	store := &dyingStore{countingStore{ClientStore: model}, cancel}
	d := clientlimit.Decider{Store: store, Kept: kept}.Decide(ctx, c, []clientlimit.Ask{{Subject: "=alice", Units: 1}})[0]
	if store.calls != 2 || !errors.Is(d.Err, quota.ErrUnavailable) || errors.Is(d.Err, quota.ErrContended) {
		t.Errorf("got %v after %d calls, want that the store is away", d.Err, store.calls)
	}
}

// Kept records are bounded by their bytes, of which the newest stay. A long one is kept, too, and counts once.
func TestKeptRecordsAreBounded(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	store := &countingStore{ClientStore: ledgertest.NewClientStore(clock.Now)}
	l := clientlimit.Decider{Store: store, Kept: clientlimit.NewCache(clock.Now)}
	c := &clientlimit.Clients{
		Name: "public", Algorithm: clientlimit.Log,
		Limits: []quota.Limit{{Name: "minute", Units: 100_000, Window: quota.Sliding(time.Minute)}},
	}
	calls := func(asks ...clientlimit.Ask) int {
		store.calls = 0
		for _, d := range l.Decide(t.Context(), c, asks) {
			if !d.Granted() {
				t.Fatalf("got %+v", d)
			}
		}
		clock.Add(time.Millisecond)
		return store.calls
	}
	many := make([]clientlimit.Ask, 50_000) // more than both halves hold
	for i := range many {
		many[i] = clientlimit.Ask{Subject: clientlimit.Key("=" + strconv.Itoa(i)), Units: 1}
	}
	calls(many...)
	if n := calls(many[len(many)-1]); n != 1 {
		t.Errorf("%d calls for the newest of many, want 1", n)
	}
	if n := calls(many[0]); n != 2 {
		t.Errorf("%d calls for the oldest of many, want 2", n)
	}
	for i := range 2000 { // 15 MB of records, each in the place of the one before
		if n := calls(many[1000]); n != 1 && i > 0 {
			t.Fatalf("%d calls for grant %d of one subject, want 1", n, i)
		}
	}
	if n := calls(many[len(many)-1]); n != 1 {
		t.Errorf("%d calls behind a busy subject, want 1", n)
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
