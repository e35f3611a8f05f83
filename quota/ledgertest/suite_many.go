package ledgertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"quotad/quota"
)

func everythingLeaves(t *testing.T, harness Harness) {
	h := begin(t, harness, one(700, quota.Sliding(time.Hour)))
	for range 35 {
		h.times(20, "list")
		h.clock.Add(time.Second)
	}
	h.denied("list", "daily", time.Hour-35*time.Second)
	h.clock.Add(2 * time.Hour)
	h.used(0)
	h.isGrant(h.acquire(quota.Request{Operation: "list", Count: 700}))
	h.denied("list", "daily", time.Hour)
}

// longWalk asks for more and more units of a full limit: each waits for the entry that frees the last one.
func longWalk(t *testing.T, harness Harness) {
	h := begin(t, harness, one(700, quota.Sliding(time.Hour)))
	for range 700 {
		h.granted("list")
		h.clock.Add(time.Second)
	}
	for _, count := range []quota.Units{1, 9, 10, 11, 100, 101, 250, 499, 500, 501, 699, 700} {
		d := h.acquire(quota.Request{Operation: "list", Count: count})
		h.isDenial(d, "daily", time.Hour-700*time.Second+time.Duration(count-1)*time.Second)
	}
}

func manyClients(t *testing.T, harness Harness) {
	h := begin(t, harness, one(500, quota.Sliding(time.Hour)))
	var wg sync.WaitGroup
	var mu sync.Mutex // guards granted
	granted := quota.Units(0)
	for range 16 {
		wg.Go(func() {
			for n := range 20 {
				operation := []string{"ten", "list"}[n%2]
				d, err := h.ledger.Acquire(context.Background(), h.c, h.ask(quota.Request{Operation: operation}))
				if err != nil {
					t.Error(err)
					return
				}
				if d.Granted() {
					mu.Lock()
					granted += d.Units
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if granted > 500 || granted < 491 {
		t.Errorf("%d units were granted of 500", granted)
	}
	h.used(granted)
}
