package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/notify"
	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/proxy"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
	"quotad/regions"
)

// What the log has of each event that is no plain grant, at its level.
func TestLinesOfEvents(t *testing.T) {
	var b bytes.Buffer
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	fetch, shop := quota.Caller{Job: "fetch", Region: "US", Run: "r1"}, quota.Caller{Remote: "shop", UID: -1}
	left, down := quota.Units(5), errors.New("down")
	spends := func(verb string, of quota.Caller, d quota.Decision) server.Decided {
		r := quota.Request{Credential: "api", Operation: "list", Count: 2, Caller: of}
		return server.Decided{Verb: verb, Request: r, PID: 7, Decision: d, Took: 3 * time.Millisecond}
	}
	full := quota.Decision{Reason: quota.LimitExceeded, Limit: "daily", Units: 2, Detail: "no room", RetryAt: at}
	past := spends("settle", fetch, quota.Decision{Units: 9})
	past.Past, past.GrantID = "limit daily", "g1"
	byHand := past
	byHand.Request.Caller = quota.Caller{}
	failed, gone := spends("acquire", shop, quota.Decision{}), spends("acquire", shop, quota.Decision{})
	failed.Err, gone.Err = quota.ErrUnavailable, context.Canceled
	trial := quota.LimitState{Limit: quota.Limit{Name: "trial", Units: 1, DryRun: true}, Used: 2, Cost: 2}
	short := quota.Decision{Units: 2, GrantID: "g1", Limits: []quota.LimitState{trial}}
	run := func(state jobs.RunState, stop jobs.Stop, passes ...jobs.Outcome) jobs.RunChanged {
		r := jobs.Run{ID: "r1", Job: "fetch", Trigger: "schedule", Slot: at, State: state, Stop: stop, LastSlot: at}
		r.Ring, r.StartedAt, r.EndedAt = regions.Ring{"US", "GB"}, at, at.Add(time.Second)
		for _, outcome := range passes {
			r.Passes = append(r.Passes, jobs.Pass{Outcome: outcome, Spent: jobs.Spent{Units: 4}})
		}
		return jobs.RunChanged{Run: r}
	}
	pass := func(outcome jobs.Outcome, attempt int) jobs.PassChanged {
		p := jobs.Pass{Region: "US", Outcome: outcome, Attempt: attempt, Spent: jobs.Spent{Units: 4, Calls: 2}}
		p.StartedAt, p.EndedAt = at, at.Add(time.Second)
		return jobs.PassChanged{Run: jobs.Run{ID: "r1", Job: "fetch"}, Pass: p}
	}
	says := func(class upstream.Class, limit string) upstream.Outcome {
		verdict := upstream.Verdict{Class: class, Says: "no"}
		return upstream.Outcome{Verdict: verdict, Credential: "api", Operation: "list", Limit: limit}
	}
	closes := says(upstream.Day, "daily")
	closes.Changed, closes.Closed, closes.Before = true, quota.Closed{By: "fetch", Until: at}, "940 units of daily"
	log := eventLog{log: zerolog.New(&b).Level(zerolog.InfoLevel)}
	for _, event := range []any{
		spends("acquire", fetch, quota.Decision{}),
		spends("acquire", fetch, short),
		spends("settle", fetch, short),
		gone,
		spends("acquire", fetch, full),
		spends("acquire", quota.Caller{UID: 33}, full),
		failed,
		past,
		byHand,
		spends("book", quota.Caller{}, quota.Decision{Units: 5, Limit: "daily"}),
		server.Forbidden{Route: "GET /v1/jobs", Caller: shop, From: "10.0.0.1", Detail: "no"},
		server.ClientReset{Clients: "public", Caller: quota.Caller{}, PID: 7},
		closes,
		says(upstream.Key, ""),
		says(upstream.Unknown, ""),
		says(upstream.Unknown, "daily"),
		says(upstream.OK, ""),
		proxy.Finished{Credential: "api", Caller: fetch, Err: down, Sent: 1, Took: time.Second},
		proxy.Finished{Credential: "api", Caller: fetch, Status: 200, Sent: 2},
		proxy.Finished{Credential: "api", Caller: fetch, Status: 200, Sent: 1, ObserveErr: down},
		proxy.Finished{Credential: "api", Caller: fetch, Refused: quota.LimitExceeded, Err: down},
		proxy.Finished{Credential: "api", Caller: fetch, Status: 200, Sent: 1},
		slidinglog.Event{Kind: slidinglog.Down, Credential: "api", Err: down},
		slidinglog.Event{Kind: slidinglog.Up, Credential: "api", Took: time.Second, Units: 5},
		slidinglog.Event{Kind: slidinglog.Restored, Credential: "api", Records: 3},
		slidinglog.Event{Kind: slidinglog.Cut, Credential: "api", Text: "it is cut"},
		run(jobs.RunRunning, jobs.Stop{}),
		run(jobs.RunDone, jobs.Stop{}, jobs.OK, jobs.OK),
		run(jobs.RunFailed, jobs.Stop{}, jobs.OK, jobs.Failed),
		run(jobs.RunStopped, jobs.Stop{Reason: jobs.DoesNotFit, Detail: "too little", RetryAt: at}, jobs.OK),
		run(jobs.RunSkipped, jobs.Stop{}),
		pass(jobs.OK, 0),
		pass(jobs.Failed, 1),
		pass(jobs.Exhausted, 0),
		pass(jobs.NotLaunched, 0),
		pass(jobs.Interrupted, 0),
		jobs.Output{Job: "fetch", Run: "r1", Line: jobs.Line{Stream: "stderr", Text: "hot", Cut: true}},
		jobs.Trouble{Job: "fetch", Err: down},
		notify.Event{Event: config.EventLow, Credential: "api", Limit: "daily", Left: &left},
		notify.Event{Event: config.EventTrouble, Kind: trouble.Key, Of: "credential api", Do: "do", Grave: true},
		notify.Event{Event: config.EventTrouble, Kind: trouble.Disk, Of: "host", Says: "full"},
		notify.Event{Event: config.EventOver, Kind: trouble.Disk, Of: "host", Says: "full"},
		notify.Result{Event: "low", Took: time.Second},
		notify.Result{Event: "low", Failed: "exit status 1"},
		notify.Output{Event: "low", Line: jobs.Line{Stream: "stdout", Text: "sent"}},
	} {
		log.record(event)
	}
	if *update {
		must(t, os.WriteFile("testdata/log.json", b.Bytes(), 0o644))
	}
	if got, want := b.String(), readPage(t, "testdata/log.json"); got != want {
		t.Errorf("got\n%swant, as -update writes it:\n%s", got, want)
	}
}
