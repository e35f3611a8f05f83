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
		"fits":    planned(plannedJob("trending", 8, 30*time.Minute)),
		"tight":   planned(plannedJob("trending", 100, time.Hour), searches()),
		"unknown": {Limits: planned().Limits, Measured: []string{"charts"}, Unknown: []string{"backfill", "routes"}},
	} {
		for _, width := range []int{40, 80, 200} {
			checkScreen(t, fmt.Sprintf("plan-%s-%d", name, width), planPage(p, viewOf(width)), viewOf(width))
		}
	}
}

// planned is the plan of some jobs.
func planned(list ...*jobs.Job) plan.Plan {
	c := &quota.Credential{
		Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)},
			{Name: "search", Units: 100, Window: quota.Calendar(quota.Day, time.UTC)},
		},
		Operations: map[string]quota.Cost{"videos.list": {Per: map[string]quota.Units{"daily": 1}}, "search.list": {Per: map[string]quota.Units{"search": 1}}},
	}
	return plan.Plan{Limits: plan.Sum(list, []*quota.Credential{c})}
}

// plannedJob is a job that takes four pages of each of n regions.
func plannedJob(name string, n int, period time.Duration) *jobs.Job {
	j := &jobs.Job{Name: name, Credential: "youtube", Schedule: jobs.Every{Period: period},
		Expects: map[string]quota.Units{"videos.list": 4}}
	for i := range n {
		j.Regions = append(j.Regions, regions.Region(fmt.Sprintf("R%03d", i)))
	}
	return j
}

func searches() *jobs.Job {
	j := plannedJob("searches", 8, 90*time.Minute)
	j.Expects = map[string]quota.Units{"search.list": 1}
	return j
}
