package slidinglog_test

import (
	"fmt"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// A counter that begins anew with each minute accepts two bursts within two seconds. In the
// log, the first is still in the window.
func Example() {
	log := slidinglog.NewSimulation(&quota.Credential{
		Name:       "api",
		Limits:     []quota.Limit{{Name: "minute", Units: 50, Window: quota.Sliding(time.Minute)}},
		Operations: map[string]quota.Cost{"get": {Every: 1}},
	})
	call := []quota.Charge{{Limit: "minute", Units: 1}}
	counter, byCounter, byLog := map[time.Time]int{}, 0, 0
	edge := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for _, at := range []time.Time{edge.Add(-time.Second), edge.Add(time.Second)} {
		for range 60 {
			if minute := at.Truncate(time.Minute); counter[minute] < 50 {
				counter[minute]++
				byCounter++
			}
			if log.Spend(at, call, false).Granted() {
				byLog++
			}
		}
	}
	fmt.Println("a fixed window accepts", byCounter)
	fmt.Println("the sliding log accepts", byLog)
	// Output:
	// a fixed window accepts 100
	// the sliding log accepts 50
}
