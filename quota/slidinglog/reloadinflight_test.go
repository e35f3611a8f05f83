package slidinglog_test

import (
	"context"
	"testing"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// A reloadingStore has something happen in the middle of the next call with a record.
type reloadingStore struct {
	*ledgertest.SimStore
	meanwhile func()
}

func (s *reloadingStore) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	if f := s.meanwhile; f != nil && len(calls[0].Body) > 0 {
		s.meanwhile = nil
		f()
	}
	return s.SimStore.Append(ctx, calls)
}

// A grant that is under way while a reload takes a limit away is answered with the limits that it was decided by.
func TestAReloadDuringAGrant(t *testing.T) {
	s := newScene(t)
	s.c.Limits = []quota.Limit{{Name: "burst", Units: 10, Window: s.c.Limits[0].Window}, s.c.Limits[0]}
	s.c = s.c.Prepared()
	store := &reloadingStore{SimStore: s.store}
	l := s.open(slidinglog.Config{Store: store})
	s.follow(40, l)
	fewer := *s.c
	fewer.Limits = fewer.Limits[1:]
	store.meanwhile = func() {
		if err := l.SetCredentials([]*quota.Credential{fewer.Prepared()}, nil); err != nil {
			t.Fatal(err)
		}
	}
	asks := s.asks(3)
	asks[0].Charges = []quota.Charge{{Limit: "burst", Units: 3}, {Limit: "daily", Units: 3}}
	d, err := l.Acquire(t.Context(), s.c, asks)
	if err != nil || !d[0].Granted() || len(d[0].Limits) != 2 || d[0].Limits[0].Used != 3 || d[0].Limits[1].Used != 3 {
		t.Errorf("it is answered %+v, %v", d, err)
	}
}
