package plan_test

import (
	"fmt"
	"time"

	"quotad/jobs"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/regions"
)

// Do two jobs fit YouTube's 10,000 units a day? Trends of 8 regions each half hour do. With a search for each
// region every two hours they do not.
func ExampleSum() {
	ring := regions.Ring{"US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"}
	list := []*jobs.Job{
		{Name: "trending", Credential: "youtube", Regions: ring, Schedule: jobs.Every{Period: 30 * time.Minute},
			Expects: map[string]quota.Units{"videos.list": 4}},
		{Name: "search", Credential: "youtube", Regions: ring, Schedule: jobs.Every{Period: 2 * time.Hour},
			Expects: map[string]quota.Units{"search.list": 1}},
	}
	youtube := &quota.Credential{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"videos.list": {Every: 1}, "search.list": {Every: 100}},
	}
	for n := range list {
		fit := plan.Sum(list[:n+1], []*quota.Credential{youtube})[0]
		fmt.Println(fit.String())
		fmt.Println("  " + fit.ByJob())
	}
	// Output:
	// fits: 1,536 of 9,500 units asked in any 24h, 7,964 left
	//   trending 1,536 (48 runs)
	// does not fit: 11,136 units asked in any 24h, 1,636 more than the 9,500 for jobs
	//   search 9,600 (12 runs), trending 1,536 (48 runs)
}
