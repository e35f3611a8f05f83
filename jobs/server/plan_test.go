package server_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
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

	p := must[plan.Plan](t)(h.Plan(ctx, jobsapi.PlanRequest{Days: 2}))
	if got := p.Until.Sub(p.From); got != 48*time.Hour {
		t.Errorf("got a plan of %v, want two days", got)
	}
	daily := p.Limits[0]
	if daily.Used != 20 || daily.Demand != 4*32 || daily.Shares[0].MostRegions != 1 || daily.FitsOnTime() || len(daily.Changes) == 0 || daily.DryAt.IsZero() {
		t.Errorf("got %+v, want 20 used, and 128 asked for of 22", daily)
	}
	if run := p.Runs[0]; run.StoppedAt != "BR" || len(run.Served) != 0 {
		t.Errorf("got %+v, want the next run to find nothing for BR", run)
	}
	j := p.Jobs[0]
	if j.Passes == 0 || j.Passes+j.Skipped != 8*j.Runs || p.Skipped != j.Skipped {
		t.Errorf("got %+v, want each region's turn in it", j)
	}
	if len(p.Unknown) != 1 || p.Unknown[0] != "silent" {
		t.Errorf("got %q left out, want the silent job", p.Unknown)
	}
	if p := must[plan.Plan](t)(h.Plan(ctx, jobsapi.PlanRequest{})); p.Until.Sub(p.From) != 7*24*time.Hour {
		t.Errorf("got a plan from %v until %v, want a week", p.From, p.Until)
	}
	for _, days := range []int{-1, jobsapi.MaxDays + 1} {
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
	if p := must[plan.Plan](t)(h.Plan(ctx, jobsapi.PlanRequest{Days: 1})); p.Passes != 7 || p.Limits[0].Spent != 28 {
		t.Errorf("got %d passes and %+v, want the seven that are left", p.Passes, p.Limits[0])
	}
	must[jobs.Run](t)(h.StopRun(ctx, run.ID))
	h.ended()
	if p := must[plan.Plan](t)(h.Plan(ctx, jobsapi.PlanRequest{Days: 1})); p.Passes != 0 {
		t.Errorf("got %d passes, want none left of a run that is over", p.Passes)
	}
}

// A longLog is a ledger whose log is read until the test lets it end.
type longLog struct {
	*ledgertest.Model
	begun, end chan struct{}
}

func (l longLog) Log(ctx context.Context, c *quota.Credential, q quota.LogQuery) (quota.LogPage, error) {
	l.begun <- struct{}{}
	<-l.end
	return l.Model.Log(ctx, c, q)
}

// A plan of many jobs and limits takes longer than other requests may: it is a long read, and
// waits for another one of its user.
func TestAPlanIsALongRead(t *testing.T) {
	ledger := longLog{ledgertest.NewModel(time.Now), make(chan struct{}, 100), make(chan struct{})}
	h := openOn(t, ledger, 100, job(t, "trending", "fetch"))
	read := make(chan error, 1)
	go func() {
		_, err := h.Client.Usage(t.Context(), "youtube", api.UsageQuery{})
		read <- err
	}()
	<-ledger.begun
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := h.Plan(ctx, jobsapi.PlanRequest{Days: 1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want no plan while its user reads a log", err)
	}
	close(ledger.end)
	if err := <-read; err != nil {
		t.Error(err)
	}
	must[plan.Plan](t)(h.Plan(t.Context(), jobsapi.PlanRequest{Days: 1}))
}
