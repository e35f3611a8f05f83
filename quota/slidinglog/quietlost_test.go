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

// A fadingStore answers some more calls, and then no more.
type fadingStore struct {
	*ledgertest.SimStore
	answers int
}

func (s *fadingStore) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	if s.answers--; s.answers < 0 {
		return []slidinglog.Outcome{{Status: slidinglog.Failed, Err: quota.ErrUnavailable}}
	}
	return s.SimStore.Append(ctx, calls)
}

// A host that is in a quiet period lacks what others put back. It grants nothing offline either, even if
// the log is lost again before the store goes away.
func TestNoOfflineGrantAfterALossInAQuietPeriod(t *testing.T) {
	now := time.UnixMilli(1795345190000)
	store := &fadingStore{SimStore: &ledgertest.SimStore{Clock: func() int64 { return now.UnixMilli() }}, answers: 1000}
	c := (&quota.Credential{
		Name: "api", Limits: []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}},
	}).Prepared()
	l, err := slidinglog.Open(slidinglog.Config{
		File: ledgertest.NewMemFile(), Store: store, Credentials: []*quota.Credential{c},
		Policies: map[string]slidinglog.Policy{c.Name: {Open: map[string]bool{"list": true}, Units: 5}},
		Clock:    func() time.Time { return now }, Manual: true, Pause: func(context.Context, time.Duration) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Follow(t.Context())
	store.Flush(c.Name)
	store.answers = 1
	now = now.Add(time.Second)
	l.Follow(t.Context())
	asks := []quota.Ask{{Request: quota.Request{Credential: c.Name, Operation: "list", Count: 5}, Charges: []quota.Charge{{Limit: "daily", Units: 5}}}}
	if d, err := l.Acquire(t.Context(), c, asks); !errors.Is(err, quota.ErrRecovering) {
		t.Errorf("%+v, %v", d, err)
	}
}
