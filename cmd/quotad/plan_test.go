package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota/api"
)

// spendsWithin is how long after its slot a run of the script may still spend: what it
// spends leaves its window between two slots then, as in the plan, where every pass is on
// time.
const spendsWithin = 1500 * time.Millisecond

// foretold asks for the plan, lets a daemon run, and holds its next runs against
// what was planned of them. A plan says nothing about passes that are late: if some were,
// it asks again.
func foretold(ts *testscript.TestScript, _ bool, args []string) {
	daemon, job := childOf(ts, args[0]), args[1]
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	client := jobsapi.Client{Client: &api.Client{Socket: ts.Getenv("QUOTAD_SOCKET")}}
	for {
		plan, err := client.Plan(context.Background(), jobsapi.PlanRequest{Days: 1})
		ts.Check(err)
		if len(plan.Runs) < n {
			ts.Fatalf("%d runs are planned, want %d", len(plan.Runs), n)
		}
		last, runs := plan.Runs[n-1].Slot, []jobs.Run(nil)
		for !slices.ContainsFunc(runs, func(r jobs.Run) bool { return !r.EndedAt.IsZero() && !r.Slot.Before(last) }) {
			ts.Check(daemon.await(regexp.MustCompile("^run (done|stopped)$")))
			runs, err = client.Runs(context.Background(), jobsapi.Selection{Job: job, Most: 100})
			ts.Check(err)
		}
		if !slices.ContainsFunc(runs, func(r jobs.Run) bool { return isLate(r, plan.Runs[0].Slot, last) }) {
			compare(ts, daemon, plan.Runs[:n], runs)
			return
		}
	}
}

// isLate tells whether a run counts in a window from first to last, and spent too late.
func isLate(r jobs.Run, first, last time.Time) bool {
	const window = 7500 * time.Millisecond
	return r.Slot.After(first.Add(-2*window)) && !r.Slot.After(last) && r.EndedAt.Sub(r.Slot) >= spendsWithin
}

// compare holds runs against what was planned of them.
func compare(ts *testscript.TestScript, daemon *child, planned []plan.Run, runs []jobs.Run) {
	served := 0
	for _, p := range planned {
		served += len(p.Served)
		if got, want := whatBecameOf(p, runs), fmt.Sprint(p); got != want {
			ts.Fatalf("got  %s\nwant %s\nwhat was planned: %+v\n%s", got, want, planned, daemon.text())
		}
	}
	if served == 0 {
		ts.Fatalf("nobody was to be served: %+v", planned)
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
