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

// The sum is of what passes expect, of what was measured, and of what callers outside jobs spend.
func TestPlan(t *testing.T) {
	ctx := t.Context()
	fetch := job(t, "trending", "fetch")
	fetch.Expects = map[string]quota.Units{"videos.list": 4}
	fetch.Schedule = jobs.Every{Period: 7 * time.Hour}
	h := open(t, 130, fetch, job(t, "silent", "fetch"))
	must[api.Decision](t)(h.Acquire(ctx, api.AcquireRequest{Credential: "youtube", Operation: "videos.list", Count: 2}))
	ask := func(with ...string) plan.Fit {
		t.Helper()
		return must[plan.Plan](t)(h.Plan(ctx, jobsapi.PlanRequest{With: with})).Limits[0]
	}
	if f := ask(); f.Demand != 4*32+2 || f.Others != 2 || !f.Fits {
		t.Errorf("got %s, want 128 in four runs, and the 2 of people", &f)
	}
	// The 24 hours from a slot to come have four runs, and this one, at whatever time of day.
	if f := ask("trending@" + fetch.Schedule.Next(time.Now()).Add(10*time.Hour).UTC().Format(time.RFC3339)); f.Demand != 5*32+2 || f.FitsOnTime() {
		t.Errorf("with a run more: %s", &f)
	}
	if f := ask("trending=every:12h"); f.Demand != 2*32+2 || !f.Fits {
		t.Errorf("every 12h: %s", &f)
	}
	for _, with := range []string{"trending", "trending@noon", "trending=every:", "trending=every:1ms", "trending=cron:5"} {
		_, err := h.Plan(ctx, jobsapi.PlanRequest{With: []string{with}})
		h.refused(err, http.StatusBadRequest)
	}
	_, err := h.Plan(ctx, jobsapi.PlanRequest{With: []string{"trendign=every:12h"}})
	h.refused(err, http.StatusNotFound)
	if p := must[plan.Plan](t)(h.Plan(ctx, jobsapi.PlanRequest{})); len(p.Unknown) != 1 || p.Unknown[0] != "silent" {
		t.Errorf("got %q left out, want the silent job", p.Unknown)
	}
}

// A run under way is foreseen to its end, and one that is over is not.
func TestForecastOfARunUnderWay(t *testing.T) {
	ctx := t.Context()
	wait := job(t, "trending", "wait")
	wait.Expects, wait.Schedule = map[string]quota.Units{"videos.list": 4}, jobs.Unscheduled{}
	h := open(t, 100, wait)
	coming := func() quota.Units {
		t.Helper()
		return must[jobsapi.Status](t)(h.Status(ctx)).Forecast[0].Hours[0]
	}
	run := must[jobs.Run](t)(h.Begin(ctx, "trending", jobsapi.RunRequest{}))
	<-h.lines // the first pass runs and has spent nothing, seven are to come
	if got := coming(); got != 32 {
		t.Errorf("%d are foreseen, want the 32 of eight passes", got)
	}
	must[jobs.Run](t)(h.StopRun(ctx, run.ID))
	h.ended()
	for coming() != 0 { // a forecast may be a little old
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
	if _, err := h.Plan(ctx, jobsapi.PlanRequest{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want no plan while its user reads a log", err)
	}
	close(ledger.end)
	if err := <-read; err != nil {
		t.Error(err)
	}
	must[plan.Plan](t)(h.Plan(t.Context(), jobsapi.PlanRequest{}))
}
