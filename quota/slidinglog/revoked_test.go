package slidinglog_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// A muteStore carries out what is appended while it is mute, and its caller does not wait for the answer.
type muteStore struct {
	*ledgertest.SimStore
	mute  bool
	muted map[string]bool // bodies
}

func (s *muteStore) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	outcomes := s.SimStore.Append(ctx, calls)
	if body := string(calls[0].Body); s.mute && (outcomes[0].Status == slidinglog.Done || s.muted[body]) {
		s.muted[body] = true
		return []slidinglog.Outcome{{Err: fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, context.Canceled)}}
	}
	return outcomes
}

// However many grants had no caller any more: all of them are revoked.
func TestManyGrantsAreRevoked(t *testing.T) {
	now := time.UnixMilli(1795345190000)
	store := &muteStore{SimStore: &ledgertest.SimStore{Clock: func() int64 { return now.UnixMilli() }}, muted: make(map[string]bool)}
	c := (&quota.Credential{
		Name: "api", Limits: []quota.Limit{{Name: "daily", Units: 1000, Window: quota.Sliding(time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}},
	}).Prepared()
	l, err := slidinglog.Open(slidinglog.Config{
		File: ledgertest.NewMemFile(), Store: store, Credentials: []*quota.Credential{c},
		Clock: func() time.Time { return now }, Manual: true, Pause: func(context.Context, time.Duration) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	follow := func() {
		for range 20 {
			l.Follow(t.Context())
			now = now.Add(250 * time.Millisecond)
		}
	}
	follow()
	var asks []quota.Ask
	for range quota.MaxAsks {
		asks = append(asks, quota.Ask{Request: quota.Request{Credential: c.Name, Operation: "list", Count: 1}, Charges: []quota.Charge{{Limit: "daily", Units: 1}}})
	}
	store.mute = true
	for range 3 {
		if _, err := l.Acquire(t.Context(), c, asks); err == nil {
			t.Fatal("the outcome is known")
		}
	}
	store.mute = false
	follow()
	if u, err := l.Usage(t.Context(), c); err != nil || u.Limits[0].Used != 0 {
		t.Errorf("%d units are used, %v", u.Limits[0].Used, err)
	}
}
