package clientlimit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
)

// harness opens ledgers that keep records, or read each one first.
func harness(keeps bool) ledgertest.ClientHarness {
	var join func(testing.TB) ledgertest.ClientLedger
	return ledgertest.ClientHarness{
		Open: func(t testing.TB, clock *ledgertest.Clock) (ledgertest.ClientLedger, func() ledgertest.ClientLedger) {
			store := ledgertest.NewClientStore(clock.Now)
			join = func(testing.TB) ledgertest.ClientLedger {
				if !keeps {
					return clientlimit.Decider{Store: store}
				}
				return clientlimit.Decider{Store: store, Kept: clientlimit.NewCache(clock.Now)}
			}
			l := join(t)
			return l, func() ledgertest.ClientLedger { return l }
		},
		Join: func(t testing.TB) ledgertest.ClientLedger { return join(t) },
	}
}

func TestRecords(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		ledgertest.RunClients(t, harness(keeps))
	}
}

func TestRandomRecords(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		ledgertest.RandomClients(t, harness(keeps))
	}
}

// A contendedStore has another host replace each record before its caller does, until a context ends.
type contendedStore struct {
	*ledgertest.ClientStore
	tries int
	end   func()
	slow  bool // the try at which the context ends is not answered
}

func (s *contendedStore) Swap(ctx context.Context, all []*clientlimit.Swap) {
	if all[0].Writes {
		if s.tries++; s.tries == 5 {
			s.end()
			if s.slow {
				all[0].Err = fmt.Errorf("%w: %w", quota.ErrUnavailable, ctx.Err())
				return
			}
		}
		other := &clientlimit.Swap{Place: all[0].Place, Writes: true, Read: all[0].Read, Next: append([]byte{byte(s.tries)}, all[0].Next...), EndsMs: all[0].EndsMs}
		s.ClientStore.Swap(ctx, []*clientlimit.Swap{other})
	}
	s.ClientStore.Swap(ctx, all)
}

// A caller that loses every try says so when its time is over, even if the last one is not answered any more:
// that is no outage. A store that took long has decided.
func TestDecideUntilTheContextEnds(t *testing.T) {
	var ctx context.Context
	var store *contendedStore
	for _, slow := range []bool{false, true} {
		var end func()
		ctx, end = context.WithCancel(t.Context())
		store = &contendedStore{ClientStore: ledgertest.NewClientStore(time.Now), end: end, slow: slow}
		if d := (clientlimit.Decider{Store: store}).Decide(ctx, public, []clientlimit.Ask{{Subject: "=alice", Units: 1}})[0]; !errors.Is(d.Err, quota.ErrContended) || store.tries != 5 {
			t.Errorf("slow %t: got %+v after %d tries, want %v after 5", slow, d, store.tries, quota.ErrContended)
		}
	}
	if d := (clientlimit.Decider{Store: store.ClientStore}).Decide(ctx, public, []clientlimit.Ask{{Subject: "=bob", Units: 1}})[0]; !d.Granted() {
		t.Errorf("got %+v, want a grant: nobody else asked for bob", d)
	}
}

// A slowStore is reached by a write only when the period of its subject is over.
type slowStore struct {
	*ledgertest.ClientStore
	clock *ledgertest.Clock
	took  time.Duration
}

func (s slowStore) Swap(ctx context.Context, all []*clientlimit.Swap) {
	if all[0].Writes {
		s.clock.Add(s.took)
	}
	s.ClientStore.Swap(ctx, all)
}

// No record is written after its period, in which the next one has been read as final: what is decided just
// before its end, and reaches the store after it, is not granted.
func TestDecideAcrossTheEndOfAPeriod(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 11, 22, 23, 59, 59, 900e6, time.UTC))
	ask := clientlimit.Ask{Subject: "#today", Units: 1, Period: clientlimit.Period{Before: "#yesterday", EndsMs: clock.Now().Add(100 * time.Millisecond).UnixMilli()}}
	for _, row := range []struct {
		took    time.Duration
		granted bool
	}{{99 * time.Millisecond, true}, {time.Millisecond, false}} {
		store := slowStore{ledgertest.NewClientStore(clock.Now), clock, row.took}
		d := (clientlimit.Decider{Store: store}).Decide(t.Context(), public, []clientlimit.Ask{ask})[0]
		if row.granted != (d.Err == nil && d.Granted()) || !row.granted && !errors.Is(d.Err, quota.ErrContended) {
			t.Errorf("at %v: got %+v, want granted %t", clock.Now(), d, row.granted)
		}
	}
}

// What is asked for one subject at once is decided in its order, and replaced once.
func TestOneSubjectAsksTwiceAtOnce(t *testing.T) {
	ledger := clientlimit.Decider{Store: ledgertest.NewClientStore(time.Now)}
	c := &clientlimit.Clients{Name: "public", Algorithm: clientlimit.Log, Limits: []quota.Limit{{Name: "daily", Units: 5, Window: quota.Sliding(24 * time.Hour)}}}
	asks := []clientlimit.Ask{{Subject: "=alice", Units: 3}, {Subject: "=bob", Units: 5}, {Subject: "=alice", Units: 3}, {Subject: "=alice", Units: 2}}
	for i, d := range ledger.Decide(t.Context(), c, asks) {
		if want := i != 2; d.Err != nil || d.Granted() != want {
			t.Errorf("ask %d: got %+v, want granted: %t", i, d, want)
		}
	}
	if u, err := ledger.Usage(t.Context(), c, clientlimit.Ask{Subject: "=alice"}); err != nil || u.Limits[0].Used != 5 {
		t.Errorf("got %+v, %v, want five units used", u, err)
	}
}
