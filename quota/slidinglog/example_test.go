package slidinglog_test

import (
	"context"
	"fmt"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// A counter that begins anew with each minute accepts two bursts within two seconds. In the
// log, the first is still in the window.
func Example() {
	api := &quota.Credential{
		Name:       "api",
		Limits:     []quota.Limit{{Name: "minute", Units: 50, Window: quota.Sliding(time.Minute)}},
		Operations: map[string]quota.Cost{"get": {Every: 1}},
	}
	edge := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	clock := ledgertest.NewClock(edge.Add(-time.Second))
	log, err := slidinglog.Open(slidinglog.Config{File: ledgertest.NewMemFile(), Clock: clock.Now, Manual: true})
	if err != nil {
		panic(err)
	}
	defer log.Close()
	call := []quota.Ask{{Request: quota.Request{Credential: "api", Operation: "get", Count: 1}, Charges: []quota.Charge{{Limit: "minute", Units: 1}}}}
	counter, byCounter, byLog := map[time.Time]int{}, 0, 0
	for range 2 {
		for range 60 {
			if minute := clock.Now().Truncate(time.Minute); counter[minute] < 50 {
				counter[minute]++
				byCounter++
			}
			if d, err := log.Acquire(context.Background(), api, call); err == nil && d[0].Granted() {
				byLog++
			}
		}
		clock.Add(2 * time.Second)
	}
	fmt.Println("a fixed window accepts", byCounter)
	fmt.Println("the sliding log accepts", byLog)
	// Output:
	// a fixed window accepts 100
	// the sliding log accepts 50
}
