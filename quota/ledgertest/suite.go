package ledgertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"quotad/quota"
)

// Run holds a ledger to what the contract of quota.Ledger says in plain cases: those that Random hardly meets, and one
// that shows what it is about. All else is in Random.
func Run(t *testing.T, h Harness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"sliding window", slidingWindow},
		{"settle of a remote caller", settleRemote},
		{"many clients at once", manyClients},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, h) })
	}
}

// one is a credential with a single limit.
func one(units quota.Units, window quota.Window) *quota.Credential {
	return &quota.Credential{
		Name:       "one",
		Limits:     []quota.Limit{{Name: "daily", Units: units, Window: window}},
		Operations: map[string]quota.Cost{"list": {Every: 1}, "ten": {Every: 10}, "most": {Every: 70}},
	}
}

const tick = time.Millisecond

func slidingWindow(t *testing.T, harness Harness) {
	h := begin(t, harness, one(100, quota.Sliding(time.Hour)))
	for range 10 {
		h.granted("ten")
		h.clock.Add(time.Minute)
	}
	h.denied("list", "daily", 50*time.Minute)
	d := h.denied("most", "daily", 56*time.Minute)
	h.clock.Set(d.RetryAt.Add(-tick))
	h.denied("most", "daily", tick)
	h.clock.Add(tick)
	h.granted("most")
	h.used(100)
}

// settleRemote has a remote caller settle a grant to more, as far as each of its limits has left without the reserve,
// and while a window holds it.
func settleRemote(t *testing.T, harness Harness) {
	c := one(1000, quota.Sliding(24*time.Hour))
	c.Limits[0].Reserve = 100
	c.Limits = append(c.Limits, quota.Limit{Name: "calls", Units: 2, Window: quota.Sliding(24 * time.Hour)})
	c.Operations = map[string]quota.Cost{"search": {Per: map[string]quota.Units{"daily": 100, "calls": 1}}}
	h := begin(t, harness, c)
	shop := quota.Caller{UID: -1, Remote: "shop"}
	first := h.acquire(quota.Request{Operation: "search", Caller: shop})
	settle := func(to quota.Units, want quota.Reason) {
		t.Helper()
		if d := h.settle(first, quota.Settlement{Units: to, Caller: shop, Bounded: true}); d.Reason != want {
			t.Errorf("settled to %d: got %+v, want reason %q", to, d, want)
		}
	}
	settle(0, "")
	second, third := h.granted("search"), h.granted("search")
	settle(100, quota.SettledTooHigh) // calls has none left
	h.settle(second, quota.Settlement{Units: 0})
	h.settle(third, quota.Settlement{Units: 850})
	settle(51, quota.SettledTooHigh) // daily has 50 left, and the reserve
	settle(50, "")
	h.used(900, 2)
	h.clock.Add(24 * time.Hour)
	settle(0, quota.UnknownGrant) // no window holds it any more
}

func manyClients(t *testing.T, harness Harness) {
	h := begin(t, harness, one(500, quota.Sliding(time.Hour)))
	var callers sync.WaitGroup
	var mu sync.Mutex // guards granted
	granted := quota.Units(0)
	for range 16 {
		callers.Go(func() {
			for n := range 20 {
				operation := []string{"ten", "list"}[n%2]
				d, err := h.ledger.Acquire(context.Background(), h.c, h.ask(quota.Request{Operation: operation}))
				if err != nil {
					t.Error(err)
				}
				if err == nil && d.Granted() {
					mu.Lock()
					granted += d.Units
					mu.Unlock()
				}
			}
		})
	}
	callers.Wait()
	if granted > 500 || granted < 491 {
		t.Errorf("%d units were granted of 500", granted)
	}
	h.used(granted)
}
