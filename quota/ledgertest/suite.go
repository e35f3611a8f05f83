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
		{"request ids", requestIDs},
		{"settle of a remote caller", settleRemote},
		{"a limit is closed", closedLimit},
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

func requestIDs(t *testing.T, harness Harness) {
	h := begin(t, harness, one(20, quota.Sliding(time.Hour)))
	request := quota.Request{Operation: "ten", RequestID: "call-1", Caller: quota.Caller{UID: 7}}
	first := h.acquire(request)
	for _, other := range []quota.Request{
		{Operation: "list", RequestID: "call-1", Caller: quota.Caller{UID: 7}},
		{Operation: "ten", Count: 2, RequestID: "call-1", Caller: quota.Caller{UID: 7}},
		{Operation: "ten", RequestID: "call-1", Caller: quota.Caller{UID: 8}},
	} {
		if d := h.acquire(other); d.Reason != quota.RequestIDConflict {
			t.Errorf("got %+v for other arguments, want request_id_conflict", d)
		}
	}
	list := one(20, quota.Sliding(time.Hour)) // what it costs now is another matter
	list.Operations["ten"] = quota.Cost{Every: 5}
	h.use(list)
	h.again()
	if d := h.acquire(request); d.GrantID != first.GrantID || !d.Replayed || first.Replayed || d.Units != 10 {
		t.Errorf("got %+v after %+v, want the grant as it was charged", d, first)
	}
	h.used(10)
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

// closing closes a limit.
func (h *history) closing(limit string, until time.Duration) {
	h.Helper()
	k := quota.Change{Kind: quota.KindClosing, Limit: limit, Until: h.clock.Now().Add(until)}
	if changed, err := h.ledger.ChangeLimit(context.Background(), h.c, k); err != nil || !changed {
		h.Fatal(changed, err)
	}
}

func closedLimit(t *testing.T, harness Harness) {
	c := one(20, quota.Sliding(time.Hour))
	c.Limits = append(c.Limits, quota.Limit{Name: "lists", Units: 20, Window: quota.Sliding(time.Hour), Only: []string{"list"}})
	h := begin(t, harness, c)
	closedBy := func(operation, limit string, retryAfter time.Duration) {
		t.Helper()
		d := h.acquire(quota.Request{Operation: operation, UseReserve: true})
		if d.Reason != quota.LimitClosed || d.Limit != limit || d.RetryAfter != retryAfter || d.Remaining() != 0 {
			t.Fatalf("got %q by %q for %v, want limit_closed by %q for %v", d.Reason, d.Limit, d.RetryAfter, limit, retryAfter)
		}
	}
	h.closing("daily", 20*time.Minute)
	h.closing("lists", 10*time.Minute)
	closedBy("list", "daily", 20*time.Minute) // of two that are closed, the one that opens last is named
	h.clock.Add(20*time.Minute - tick)
	closedBy("ten", "daily", tick)
	h.clock.Add(tick)
	h.granted("ten")
	h.granted("ten")
	h.closing("daily", time.Minute) // the window ends later than the closing: both count
	closedBy("list", "daily", time.Hour)
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
