package main

import (
	"fmt"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/regions"
)

// Plans as they are printed.
func TestPlansOnTheScreen(t *testing.T) {
	for name, p := range map[string]plan.Plan{
		"fits":     planned(0, plannedJob(t, "trending", 8, 30*time.Minute)),
		"late":     planned(0, plannedJob(t, "trending", 98, time.Hour)),
		"tight":    planned(412, plannedJob(t, "trending", 100, time.Hour), searches(t)),
		"hopeless": planned(0, plannedJob(t, "trending", 100, time.Hour), plannedJob(t, "world", 200, 20*time.Minute)),
		"unknown":  {Limits: planned(0).Limits, Measured: []string{"charts"}, Unknown: []string{"backfill", "routes"}, Elsewhere: []string{"nightly"}},
	} {
		for _, width := range []int{40, 80, 200} {
			checkScreen(t, fmt.Sprintf("plan-%s-%d", name, width), planPage(p, viewOf(width)), viewOf(width))
		}
	}
}

// planned is the plan of some jobs beside other callers.
func planned(others quota.Units, list ...*jobs.Job) plan.Plan {
	c := &quota.Credential{
		Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)},
			{Name: "search", Units: 100, Window: quota.Calendar(quota.Day, time.UTC)},
		},
		Operations: map[string]quota.Cost{"videos.list": {Per: map[string]quota.Units{"daily": 1}}, "search.list": {Per: map[string]quota.Units{"search": 1}}},
	}
	outside := func(_ string, limit int) quota.Units { return others * quota.Units(1-limit) }
	return plan.Plan{Limits: plan.CheckFit(list, []*quota.Credential{c}, at, outside)}
}

// plannedJob is a job that takes four pages of each of n regions.
func plannedJob(t *testing.T, name string, n int, period time.Duration) *jobs.Job {
	t.Helper()
	j := &jobs.Job{Name: name, Credential: "youtube", Schedule: jobs.Every{Period: period}, Stagger: jobs.EvenStagger, Timeout: 5 * time.Minute, KillGrace: 10 * time.Second,
		Expects: map[string]quota.Units{"videos.list": 4}}
	for i := range n {
		j.Regions = append(j.Regions, regions.Region(fmt.Sprintf("R%03d", i)))
	}
	return j
}

func searches(t *testing.T) *jobs.Job {
	j := plannedJob(t, "searches", 8, 90*time.Minute)
	j.Expects = map[string]quota.Units{"search.list": 1}
	return j
}
