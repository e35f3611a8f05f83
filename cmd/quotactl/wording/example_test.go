package wording_test

//ci:norace

import (
	"fmt"
	"time"

	"quotad/cmd/quotactl/wording"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota/api"
)

// What a status says of a limit.
func ExampleOutlook() {
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	view := wording.View{Now: now, Zone: time.UTC}
	back := now.Add(3*time.Hour + 20*time.Minute)
	daily := api.Limit{Name: "daily", Units: 10_000, Reserve: 500, Used: 6_100, Remaining: 3_400, Window: "24h", WindowMs: 86_400_000,
		Describe: "in any 24h", NextUnitsAt: &back, NextUnits: 100}
	rate := plan.Rate{Credential: "youtube", Limit: "daily", PerHour: 850, GoneAt: now.Add(4*time.Hour + 2*time.Minute + 40*time.Second)}
	status := jobsapi.Status{Rates: []plan.Rate{rate}}
	fmt.Println(wording.Outlook(status, api.Credential{Name: "youtube"}, daily, view))
	// Output:
	// used up at about 13:02
}
