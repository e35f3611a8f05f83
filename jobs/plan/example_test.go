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
// region every two hours they do not, and CheckFit says which interval is enough.
func ExampleCheckFit() {
	halfHour := jobs.Every{Period: 30 * time.Minute}
	twoHours := jobs.Every{Period: 2 * time.Hour}
	ring := regions.Ring{"US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"}
	list := []*jobs.Job{
		{Name: "trending", Credential: "youtube", Regions: ring, Schedule: halfHour, Stagger: jobs.EvenStagger,
			Expects: map[string]quota.Units{"videos.list": 4}, Timeout: 2 * time.Minute},
		{Name: "search", Credential: "youtube", Regions: ring, Schedule: twoHours, Stagger: jobs.EvenStagger,
			Expects: map[string]quota.Units{"search.list": 1}, Timeout: 2 * time.Minute},
	}
	youtube := &quota.Credential{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"videos.list": {Every: 1}, "search.list": {Every: 100}},
	}
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	for n := range list {
		fit := plan.CheckFit(list[:n+1], []*quota.Credential{youtube}, now, nil)[0]
		fmt.Println(fit.String())
		fmt.Println("  " + fit.ByJob())
		if fit.Change != nil {
			fmt.Println("  " + fit.Cure())
		}
	}
	// Output:
	// fits: 1,536 of 9,500 units asked in any 24h, 7,964 left; 7,960 if passes fall together
	//   trending 1,536 (48 runs)
	// does not fit: 11,136 units asked in any 24h, 1,636 more than the 9,500 for jobs
	//   search 9,600 (12 runs), trending 1,536 (48 runs)
	//   search every 2h40m instead of 2h would fit
}
