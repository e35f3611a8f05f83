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

func harness() ledgertest.ClientHarness {
	return ledgertest.ClientHarness{Open: func(_ testing.TB, clock *ledgertest.Clock) (ledgertest.ClientLedger, func() ledgertest.ClientLedger) {
		l := clientlimit.Ledger{Store: ledgertest.NewClientStore(clock.Now)}
		return l, func() ledgertest.ClientLedger { return l }
	}}
}

func TestRecords(t *testing.T) { ledgertest.RunClients(t, harness()) }

func TestRandomRecords(t *testing.T) { ledgertest.RandomClients(t, harness()) }

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
		other := &clientlimit.Swap{Place: all[0].Place, Writes: true, Read: all[0].Read, Next: append([]byte{byte(s.tries)}, all[0].Next...)}
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
		if d := (clientlimit.Ledger{Store: store}).Decide(ctx, public, []clientlimit.Ask{{Subject: "=alice", Units: 1}})[0]; !errors.Is(d.Err, quota.ErrContended) || store.tries != 5 {
			t.Errorf("slow %t: got %+v after %d tries, want %v after 5", slow, d, store.tries, quota.ErrContended)
		}
	}
	if d := (clientlimit.Ledger{Store: store.ClientStore}).Decide(ctx, public, []clientlimit.Ask{{Subject: "=bob", Units: 1}})[0]; !d.Granted() {
		t.Errorf("got %+v, want a grant: nobody else asked for bob", d)
	}
}
