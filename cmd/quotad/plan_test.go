package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota/api"
)

// foretold asks for the plan, lets a daemon run, and holds its next runs against
// what was planned of them.
func foretold(ts *testscript.TestScript, _ bool, args []string) {
	daemon, job := childOf(ts, args[0]), args[1]
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	client := jobsapi.Client{Client: &api.Client{Socket: ts.Getenv("QUOTAD_SOCKET")}}
	plan, err := client.Plan(context.Background(), jobsapi.PlanRequest{Days: 1})
	ts.Check(err)
	if len(plan.Runs) < n {
		ts.Fatalf("%d runs are planned, want %d", len(plan.Runs), n)
	}
	for range n {
		ts.Check(daemon.await(regexp.MustCompile("^run (done|stopped)$")))
	}
	runs, err := client.Runs(context.Background(), jobsapi.Selection{Job: job, Most: 100})
	ts.Check(err)
	served := 0
	for _, planned := range plan.Runs[:n] {
		served += len(planned.Served)
		if got, want := whatBecameOf(planned, runs), fmt.Sprint(planned); got != want {
			ts.Fatalf("got  %s\nwant %s\nwhat was planned: %+v\n%s", got, want, plan.Runs[:n], daemon.text())
		}
	}
	if served == 0 {
		ts.Fatalf("nobody was to be served: %+v", plan.Runs[:n])
	}
}

// whatBecameOf writes the run of a slot as it would have been planned.
func whatBecameOf(planned plan.Run, runs []jobs.Run) string {
	i := slices.IndexFunc(runs, func(r jobs.Run) bool { return r.Slot.Equal(planned.Slot) })
	if i < 0 {
		return "no run"
	}
	became := plan.Run{Job: runs[i].Job, Slot: planned.Slot, Limit: planned.Limit}
	for _, pass := range runs[i].Passes {
		switch pass.Outcome {
		case jobs.OK:
			became.Served = append(became.Served, pass.Region)
		default:
			became.StoppedAt = pass.Region
		}
	}
	return fmt.Sprint(became)
}
