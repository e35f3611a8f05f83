package ledgertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"quotad/quota"
)

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
