package quota_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"quotad/quota"
	"quotad/quota/boltledger"
	"quotad/quota/slidinglog"
)

// The day on which clocks are set back in California has 25 hours.
func ExampleWindow_Bounds() {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		panic(err)
	}
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, zone)
	after, end := quota.Calendar(quota.Day, zone).Bounds(noon)
	fmt.Println(end.Sub(after).Round(time.Minute), end.UTC().Format(time.DateTime))
	after, _ = quota.Sliding(24 * time.Hour).Bounds(noon)
	fmt.Println(noon.Sub(after))
	// Output:
	// 25h0m0s 2026-11-02 08:00:00
	// 24h0m0s
}

// A service on a file of its own, in a program that needs no daemon.
func ExampleService() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file, err := boltledger.Open(boltledger.Config{Path: filepath.Join(dir, "ledger.db")})
	if err != nil {
		panic(err)
	}
	ledger, err := slidinglog.Open(slidinglog.Config{File: file})
	if err != nil {
		panic(err)
	}
	defer ledger.Close()
	service, err := quota.NewService(ledger, []*quota.Credential{{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: 250, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}},
	}}, time.Second)
	if err != nil {
		panic(err)
	}
	for range 3 {
		d, err := service.Acquire(context.Background(), quota.Request{Credential: "youtube", Operation: "search.list", Count: 1})
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Granted(), d.RetryAt.IsZero())
	}
	// Output:
	// true true
	// true true
	// false false
}
