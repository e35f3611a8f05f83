package main

import (
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/slidinglog"
)

// A ledger that was well just before it was lost is not put back, nor is one that grants nothing yet. Where nothing was
// put back, nothing was lost, and what was not lost is carried along.
func TestHealthBeforeALoss(t *testing.T) {
	for records, want := range map[int]string{3: "lost, lost, back", 0: "lost, lost, none"} {
		f := newFacts()
		before := time.Now()
		f.record(slidinglog.Event{Kind: slidinglog.Restored, Credential: "carried", Records: 3})
		f.record(slidinglog.Event{Kind: slidinglog.LostLog, Credential: "api"})
		f.record(slidinglog.Event{Kind: slidinglog.Restored, Credential: "api", Records: records})
		var got []string
		for _, now := range []struct {
			asked  time.Time
			health quota.Health
		}{
			{before, quota.Health{Reachable: true}},
			{time.Now(), quota.Health{Reachable: true, Recovering: []string{"api"}}},
			{time.Now(), quota.Health{Reachable: true}},
		} {
			s := trouble.State{Ledger: trouble.LedgerState{Health: now.health}}
			for _, name := range []string{"api", "carried"} {
				s.Credentials = append(s.Credentials, trouble.CredentialState{Credential: &quota.Credential{Name: name}})
			}
			f.complete(&s, now.asked)
			switch {
			case len(s.Losses) == 0:
				got = append(got, "none")
			case len(s.Losses) == 1 && s.Losses[0].Credential == "api" && s.Losses[0].Back.IsZero():
				got = append(got, "lost")
			case len(s.Losses) == 1 && s.Losses[0].Credential == "api":
				got = append(got, "back")
			}
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("with %d records: %s, want %s", records, text, want)
		}
	}
}

// A job is idle while each of its last runs ended well without a call. A slot that was skipped says nothing.
func TestIdle(t *testing.T) {
	run := func(state jobs.RunState, calls ...int64) jobs.Run {
		r := jobs.Run{State: state}
		for _, n := range calls {
			r.Passes = append(r.Passes, jobs.Pass{Outcome: jobs.OK, Spent: jobs.Spent{Calls: n}})
		}
		return r
	}
	idleRun := run(jobs.RunDone, 0, 0)
	for _, row := range []struct {
		name string
		runs []jobs.Run
		want int
	}{
		{"no run yet", nil, 0},
		{"all of them", []jobs.Run{run(jobs.RunRunning, 0), idleRun, run(jobs.RunSkipped), idleRun}, 2},
		{"one region calls", []jobs.Run{idleRun, run(jobs.RunDone, 0, 1)}, 0},
		{"one failed", []jobs.Run{idleRun, run(jobs.RunFailed, 0)}, 0},
	} {
		f, asked := newFacts(), 0
		runs := func(string, int) ([]jobs.Run, error) { asked++; return row.runs, nil }
		if got := []int{f.idleOf("fetch", runs), f.idleOf("fetch", runs)}; got[0] != row.want || got[1] != row.want || asked != 1 {
			t.Errorf("%s: %v after asking %d times, want %d", row.name, got, asked, row.want)
		}
		f.record(jobs.RunChanged{Run: jobs.Run{Job: "fetch", State: jobs.RunDone}})
		if f.idleOf("fetch", runs); asked != 2 {
			t.Errorf("%s: after a run it asks %d times in all", row.name, asked)
		}
	}
}
