package main

import (
	"testing"
	"time"

	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/quota"
	"quotad/regions"
)

func TestStatusLine(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	status := func(name string, next time.Duration, passes ...jobs.Pass) jobs.Status {
		s := jobs.Status{Name: name, Next: now.Add(next)}
		if passes != nil {
			s.Last = &jobs.Run{State: jobs.RunRunning, Ring: regions.Ring{"US", "GB", "DE"}, Passes: passes}
		}
		return s
	}
	done, running := jobs.OK, jobs.Running
	over := status("over", time.Hour, jobs.Pass{Region: "US", Outcome: done})
	over.Last.State = jobs.RunDone
	paused := status("paused", time.Minute)
	paused.Pause = &jobs.Pause{}
	daily := quota.LimitState{Limit: quota.Limit{Name: "daily", Units: 10_000, Reserve: 500}, Used: 1_480}
	search := quota.LimitState{Limit: quota.Limit{Name: "search", Units: 4_000}, Used: 100}
	of := func(name string, limits ...quota.LimitState) trouble.CredentialState {
		c := trouble.CredentialState{Credential: &quota.Credential{Name: name}}
		for _, l := range limits {
			c.Limits = append(c.Limits, trouble.LimitState{LimitState: l})
		}
		return c
	}
	youtube := of("youtube", search, daily)

	for _, test := range []struct {
		name string
		summary
		want string
	}{
		{"nothing is configured to run", summary{credentials: []trouble.CredentialState{youtube}}, "idle; daily 8,020 of 9,500 units left"},
		{"a run that is over", summary{jobs: []jobs.Status{over}, credentials: []trouble.CredentialState{youtube}}, "idle; daily 8,020 of 9,500 units left; next over 11:00:00"},
		{"a pass", summary{jobs: []jobs.Status{status("trending", time.Hour, jobs.Pass{Region: "US", Outcome: running})}, credentials: []trouble.CredentialState{youtube}},
			"trending: US running, then GB; daily 8,020 of 9,500 units left; next trending 11:00:00"},
		{"between two passes", summary{jobs: []jobs.Status{status("trending", time.Hour, jobs.Pass{Region: "US", Outcome: done})}},
			"trending: waiting, then GB; next trending 11:00:00"},
		{"two passes, the last ones", summary{jobs: []jobs.Status{status("trending", time.Hour,
			jobs.Pass{Region: "US", Outcome: done}, jobs.Pass{Region: "GB", Outcome: running}, jobs.Pass{Region: "DE", Outcome: running})}},
			"trending: GB, DE running; next trending 11:00:00"},
		{"the soonest, but not one that is paused", summary{jobs: []jobs.Status{status("later", 2*time.Hour), paused, status("sooner", time.Hour)}},
			"idle; next sooner 11:00:00"},
		{"another day", summary{jobs: []jobs.Status{status("rare", 48*time.Hour)}}, "idle; next rare 2026-11-23 10:00:00"},
		{"many jobs run", summary{jobs: []jobs.Status{
			status("a", time.Hour, jobs.Pass{Region: "US", Outcome: running}), status("b", time.Hour, jobs.Pass{Region: "US", Outcome: running}),
			status("c", time.Hour, jobs.Pass{Region: "US", Outcome: running}), status("d", time.Hour, jobs.Pass{Region: "US", Outcome: running}),
		}}, "a: US running, then GB, b: US running, then GB, c: US running, then GB, 1 more; next a 11:00:00"},
		{"two credentials", summary{credentials: []trouble.CredentialState{youtube, of("maps", search)}},
			"idle; youtube daily 8,020 of 9,500 units, maps 3,900 of 4,000 units left"},
		{"trouble", summary{troubles: []trouble.Trouble{{Says: "the ledger is\naway"}}}, "the ledger is away; idle"},
		{"three", summary{troubles: make([]trouble.Trouble, 3)}, " (and 2 more); idle"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.now = now
			if got := test.String(); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}
