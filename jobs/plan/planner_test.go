package plan

import (
	"testing"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/ledgertest"
)

// A forecast, which each status has, does not wait for a plan, which may take half a minute.
func TestAForecastDoesNotWaitForAPlan(t *testing.T) {
	service, err := quota.NewService(ledgertest.NewModel(time.Now), []*quota.Credential{dailyOf(10_000, 500)}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	runner, err := jobs.Open(jobs.Config{Gate: service, Tokens: new(jobs.Tokens), Dir: t.TempDir(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	p := NewPlanner(runner, service)
	p.planning.Lock() // as a plan under way does
	defer p.planning.Unlock()
	list := make(chan []Forecast, 1)
	go func() {
		all, err := p.Forecast(t.Context())
		if err != nil {
			t.Error(err)
		}
		list <- all
	}()
	select {
	case all := <-list:
		if len(all) != 1 {
			t.Errorf("got %+v, want the forecast of the one limit", all)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the forecast waits for the plan")
	}
}
