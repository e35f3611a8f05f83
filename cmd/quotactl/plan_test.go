package main

import (
	"fmt"
	"testing"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/jobs"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/slidinglog"
	"quotad/regions"
)

// Plans as they are printed, all from one instant.
func TestPlansOnTheScreen(t *testing.T) {
	ascii := viewOf(80)
	ascii.UTF8 = false
	views := map[string]term.View{"40": viewOf(40), "80": viewOf(80), "200": viewOf(200), "80-ascii": ascii}
	for name, p := range map[string]*plan.Plan{
		"fits":     simulate(3, 0, plannedJob(t, "trending", 8, 30*time.Minute)),
		"tight":    simulate(7, 4120, plannedJob(t, "trending", 100, time.Hour), searches(t), silent(t)),
		"spent":    simulate(1, 9490, plannedJob(t, "trending", 8, 30*time.Minute)),
		"hopeless": simulate(1, 0, plannedJob(t, "trending", 100, time.Hour), plannedJob(t, "world", 200, 20*time.Minute)),
		"cut":      simulate(7, 0, plannedJob(t, "trending", 10, time.Second)),
	} {
		for size, v := range views {
			t.Run(name+"-"+size, func(t *testing.T) {
				got := planPage(*p, v)
				compare(t, fmt.Sprintf("plan-%s-%s", name, size), got)
				checkPlain(t, got, v)
				if v.Width >= term.DefaultWidth {
					checkFits(t, got, v)
				}
			})
		}
	}
}

// simulate plans some days of jobs of which units were spent an hour ago.
func simulate(days int, spent quota.Units, list ...*jobs.Job) *plan.Plan {
	c := &quota.Credential{
		Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)},
			{Name: "search", Units: 100, Window: quota.Calendar(quota.Day, time.UTC)},
		},
		Operations: map[string]quota.Cost{"videos.list": {Per: map[string]quota.Units{"daily": 1}}, "search.list": {Per: map[string]quota.Units{"search": 1}}},
	}
	limits := slidinglog.NewSimulation(c)
	limits.Spend(at.Add(-time.Hour), []quota.Charge{{Limit: c.Limits[0].Name, Units: spent}}, false)
	in := plan.SimInput{From: at, Limits: []*slidinglog.Simulation{limits}}
	for _, job := range list {
		in.Jobs = append(in.Jobs, jobs.JobState{Job: job})
	}
	return plan.Simulate(in, at.Add(time.Duration(days)*24*time.Hour))
}

// plannedJob is a job that takes four pages of each of n regions.
func plannedJob(t *testing.T, name string, n int, period time.Duration) *jobs.Job {
	t.Helper()
	schedule, err := jobs.NewEvery(period, 0)
	if err != nil {
		t.Fatal(err)
	}
	j := &jobs.Job{Name: name, Credential: "youtube", Schedule: schedule, Stagger: jobs.EvenStagger, Timeout: 5 * time.Minute, KillGrace: 10 * time.Second,
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

func silent(t *testing.T) *jobs.Job {
	j := plannedJob(t, "backfill", 1, time.Hour)
	j.Expects = nil
	return j
}
