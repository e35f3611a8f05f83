package api_test

import (
	"net/http"
	"testing"
	"time"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
)

// A plan begins with what the ledger holds, where the cursor is.
func TestPlan(t *testing.T) {
	ctx := t.Context()
	fetch := job(t, "trending", "fetch")
	fetch.Expects = map[string]quota.Units{"videos.list": 4}
	var err error
	if fetch.Schedule, err = jobs.NewEvery(7*time.Hour, 0); err != nil {
		t.Fatal(err)
	}
	h := open(t, 22, fetch, job(t, "silent", "fetch"))
	must[jobs.Run](t)(h.Begin(ctx, "trending", jobsapi.RunRequest{}))
	h.ended() // at BR, with 20 units spent

	plan := must[jobs.Plan](t)(h.Plan(ctx, jobsapi.PlanRequest{Days: 2}))
	if got := plan.Until.Sub(plan.From); got != 48*time.Hour {
		t.Errorf("got a plan of %v, want two days", got)
	}
	daily := plan.Limits[0]
	if daily.Used != 20 || daily.Demand != 4*32 || daily.Fits() || len(daily.Changes) == 0 || daily.DryAt.IsZero() {
		t.Errorf("got %+v, want 20 used, and 128 asked for of 22", daily)
	}
	if run := plan.Runs[0]; run.StoppedAt != "BR" || len(run.Served) != 0 {
		t.Errorf("got %+v, want the next run to find nothing for BR", run)
	}
	j := plan.Jobs[0]
	if j.Passes == 0 || j.Passes+j.Skipped != 8*j.Runs || j.MostRegions != 1 || plan.Skipped != j.Skipped {
		t.Errorf("got %+v, want each region's turn in it", j)
	}
	if len(plan.Unknown) != 1 || plan.Unknown[0] != "silent" {
		t.Errorf("got %q left out, want the silent job", plan.Unknown)
	}
	if plan := must[jobs.Plan](t)(h.Plan(ctx, jobsapi.PlanRequest{})); plan.Until.Sub(plan.From) != 7*24*time.Hour {
		t.Errorf("got a plan from %v until %v, want a week", plan.From, plan.Until)
	}
	for _, days := range []int{-1, jobsapi.MostDays + 1} {
		_, err := h.Plan(ctx, jobsapi.PlanRequest{Days: days})
		h.refused(err, http.StatusBadRequest)
	}
}

// A plan goes on with the run that is under way.
func TestPlanOfARunUnderWay(t *testing.T) {
	ctx := t.Context()
	wait := job(t, "trending", "wait")
	wait.Expects = map[string]quota.Units{"videos.list": 4}
	h := open(t, 100, wait)
	run := must[jobs.Run](t)(h.Begin(ctx, "trending", jobsapi.RunRequest{}))
	<-h.lines // the first pass runs, seven are to come
	if plan := must[jobs.Plan](t)(h.Plan(ctx, jobsapi.PlanRequest{Days: 1})); plan.Passes != 7 || plan.Limits[0].Spent != 28 {
		t.Errorf("got %d passes and %+v, want the seven that are left", plan.Passes, plan.Limits[0])
	}
	must[jobs.Run](t)(h.StopRun(ctx, run.ID))
	h.ended()
	if plan := must[jobs.Plan](t)(h.Plan(ctx, jobsapi.PlanRequest{Days: 1})); plan.Passes != 0 {
		t.Errorf("got %d passes, want none left of a run that is over", plan.Passes)
	}
}
