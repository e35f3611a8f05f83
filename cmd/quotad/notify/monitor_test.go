package notify

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
)

// What goes on for hours is told once when it begins, and once when it ends.
func TestMonitorTellsEachEdgeOnce(t *testing.T) {
	day := quota.Limit{Name: "daily", Units: 100, Window: quota.Sliding(24 * time.Hour)}
	var m *Monitor
	acquired := func(d quota.Decision, err error) func() {
		return func() {
			m.Record(server.Event{Verb: "acquire", Request: quota.Request{Credential: "api"}, Decision: d, Err: err})
		}
	}
	used := func(n quota.Units) quota.Decision {
		return quota.Decision{Limits: []quota.LimitState{{Limit: day, Used: n, Cost: 1}}}
	}
	lifted := func(n quota.Units) quota.Decision {
		return quota.Decision{Limits: []quota.LimitState{{Limit: day, Used: n, Cost: 1, Lifted: true}}}
	}
	denied := used(100)
	denied.Reason, denied.Limit = quota.LimitExceeded, "daily"
	down := func() {
		m.Record(slidinglog.Event{Kind: slidinglog.Down, Credential: "api", Err: quota.ErrUnavailable})
	}
	up := func() { m.Record(slidinglog.Event{Kind: slidinglog.Up, Credential: "api"}) }
	failed := func() {
		m.Record(jobs.PassChanged{Run: jobs.Run{Job: "fetch"}, Pass: jobs.Pass{Outcome: jobs.Failed}})
	}
	refused := func() { m.Record(jobs.GateRefused{Credential: "api", Decision: denied}) }
	done := func() { m.Record(jobs.RunChanged{Run: jobs.Run{Job: "fetch", State: jobs.RunDone}}) }
	notAgain := func() { // it failed, and the budget was gone before it could be tried again
		passes := []jobs.Pass{{Region: "US", Outcome: jobs.Failed}, {Region: "US", Attempt: 1, Outcome: jobs.NotLaunched}}
		m.Record(jobs.PassChanged{Run: jobs.Run{Job: "fetch", Retry: 1}, Pass: passes[0]})
		m.Record(jobs.RunChanged{Run: jobs.Run{Job: "fetch", State: jobs.RunFailed, Retry: 1, Passes: passes}})
	}
	unreachable := acquired(quota.Decision{}, quota.ErrUnavailable)
	outageBeganAndEnded := []config.Event{config.OutageBegan, config.OutageEnded}
	for _, row := range []struct {
		name  string
		steps []func()
		want  []config.Event
	}{
		{"use rises over a threshold", []func(){acquired(used(79), nil), acquired(used(80), nil), acquired(used(81), nil)},
			[]config.Event{config.NearLimit}},
		{"the gate refuses what a limit denies", []func(){refused, refused, acquired(denied, nil)}, []config.Event{config.Exhausted}},
		{"a limit denies again and again", []func(){acquired(denied, nil), acquired(denied, nil)}, []config.Event{config.Exhausted}},
		{"a shared ledger goes, and calls fail meanwhile", []func(){down, unreachable, up, acquired(used(1), nil)}, outageBeganAndEnded},
		{"a call fails before the outage is noticed", []func(){unreachable, down, down, up}, outageBeganAndEnded},
		{"an outage's own grant does not end it", []func(){down, acquired(quota.Decision{Outage: true}, nil)}, []config.Event{config.OutageBegan}},
		{"a full disk, until something is written again", []func(){unreachable, acquired(used(1), nil)}, outageBeganAndEnded},
		{"a replay writes nothing", []func(){unreachable, acquired(quota.Decision{Replayed: true}, nil)}, []config.Event{config.OutageBegan}},
		{"a caller goes away while a shared ledger is asked", []func(){acquired(quota.Decision{}, fmt.Errorf("%w: %w", quota.ErrUnavailable, context.Canceled))}, nil},
		{"a lifted limit is used up", []func(){acquired(lifted(85), nil), acquired(lifted(100), nil)}, nil},
		{"a pass fails that is not tried again", []func(){notAgain, done}, []config.Event{config.JobFailing}},
		{"a job fails until a run goes well", []func(){failed, failed, done, failed}, []config.Event{config.JobFailing, config.JobFailing}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got []config.Event
			m = NewMonitor(func(event any) {
				if one := event.(Alert).Event; one != config.RunEnded { // which is told each time
					got = append(got, one)
				}
			})
			for _, step := range row.steps {
				step()
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("told %v, want %v", got, row.want)
			}
		})
	}
}
