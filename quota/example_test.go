package quota_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// A program that meters its own calls of the YouTube Data API needs no daemon: a service on a directory
// is enough. Ordinary calls leave the reserve alone, and what was spent counts for 24 hours.
func ExampleService() {
	dir, err := os.MkdirTemp("", "budget")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now } // nil outside of an example: the machine's
	ledger := slidinglog.Open(slidinglog.Config{Engine: slidinglog.NewMemory(clock), Dir: dir})
	defer ledger.Close()
	service, err := quota.NewService(ledger, []*quota.Credential{{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}, "videos.list": {Every: 1}},
	}}, time.Second)
	if err == nil {
		err = ledger.SetCredentials(service.Credentials(), nil)
	}
	if err != nil {
		log.Fatal(err)
	}

	for range 3 {
		d, err := service.Acquire(context.Background(), quota.Request{Credential: "youtube", Operation: "search.list", Count: 40})
		switch {
		case err != nil:
			log.Fatal(err) // nobody knows what is left: do not call
		case d.Granted():
			fmt.Println(now.Format("15:04"), "granted", d.Units, "units,", d.Remaining(), "left")
		default:
			fmt.Println(now.Format("15:04"), "denied by", d.Limit, "until", d.RetryAt.Format(time.DateTime))
		}
		now = now.Add(time.Hour)
	}
	// Output:
	// 09:00 granted 4000 units, 5500 left
	// 10:00 granted 4000 units, 1500 left
	// 11:00 denied by daily until 2026-11-24 09:00:00
}
