package server_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// An acquire and a status say the same of a limit: which jobs it counts, and why it did not
// stand in the way although nothing is left of it.
func TestAcquireAndStatusSayTheSameOfALimit(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	day := quota.Calendar(quota.Day, time.UTC)
	youtube := &quota.Credential{
		Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: 100, Window: day},
			{Name: "others", Units: 20, Window: day, ExceptJobs: []string{"trending"}},
			{Name: "trial", Units: 1, Window: day, DryRun: true},
		},
		Operations: map[string]quota.Cost{"videos.list": {Every: 1}},
	}
	h := servertest.Start(t, func(c *server.Config) {
		c.Service = servertest.NewService(t, ledgertest.NewModel(clock.Now), youtube)
	})
	granted := h.Acquire("", api.AcquireRequest{Operation: "videos.list", Count: 3})
	var status api.Status
	if err := h.Client("").Get(context.Background(), "/v1/status", &status); err != nil {
		t.Fatal(err)
	}
	want := status.Credentials[0].Limits
	for i := range want {
		want[i].NextUnitsAt, want[i].NextUnits, want[i].CountsSince = nil, 0, nil // an acquire does not look around
	}
	if !granted.Granted || !reflect.DeepEqual(granted.Limits, want) {
		t.Errorf("granted %v\nacquire %+v\nstatus  %+v", granted.Granted, granted.Limits, want)
	}
}
