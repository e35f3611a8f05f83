package ledgertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"quotad/quota"
)

func everythingLeaves(t *testing.T, harness Harness) {
	h := begin(t, harness, one(3000, quota.Sliding(time.Hour)))
	asks := make([]quota.Ask, 100)
	for i := range asks {
		asks[i] = h.ask(quota.Request{Operation: "list"})
	}
	for range 30 {
		for _, d := range h.acquireAll(asks...) {
			h.isGrant(d)
		}
		h.clock.Add(time.Second)
	}
	h.denied("list", "daily", time.Hour-30*time.Second)
	h.clock.Add(2 * time.Hour)
	h.used(0)
	d := h.acquire(quota.Request{Operation: "list", Count: 3000})
	h.isGrant(d)
	h.denied("list", "daily", time.Hour)
}

func longWalk(t *testing.T, harness Harness) {
	h := begin(t, harness, one(2000, quota.Sliding(time.Hour)))
	asks := make([]quota.Ask, 100)
	for i := range asks {
		asks[i] = h.ask(quota.Request{Operation: "list"})
	}
	for range 20 {
		h.acquireAll(asks...)
		h.clock.Add(time.Second)
	}
	for _, count := range []quota.Units{1, 100, 101, 1450, 1999, 2000} {
		d := h.acquire(quota.Request{Operation: "list", Count: count})
		h.isDenial(d, "daily", time.Hour-20*time.Second+time.Duration((count-1)/100)*time.Second)
	}
}

func manyClients(t *testing.T, harness Harness) {
	h := begin(t, harness, one(500, quota.Sliding(time.Hour)))
	var wg sync.WaitGroup
	var mu sync.Mutex // guards granted
	granted := quota.Units(0)
	for range 16 {
		wg.Go(func() {
			for range 10 {
				decisions, err := h.ledger.Acquire(context.Background(), h.c, []quota.Ask{
					{Request: quota.Request{Operation: "ten", Count: 1}, Charges: []quota.Charge{{Limit: "daily", Units: 10}}},
					{Request: quota.Request{Operation: "list", Count: 1}, Charges: []quota.Charge{{Limit: "daily", Units: 1}}},
				})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for i, d := range decisions {
					if d.Granted() {
						granted += []quota.Units{10, 1}[i]
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if granted > 500 || granted < 491 {
		t.Errorf("%d units were granted of 500", granted)
	}
	h.used(granted)
}
