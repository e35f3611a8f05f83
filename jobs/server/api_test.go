package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
)

// A budget of 20, eight regions of 4: five are served, the run stops, and what
// the passes were granted is told with them.
func TestRunAgainstABudget(t *testing.T) {
	ctx := t.Context()
	fetch := job(t, "trending", "fetch")
	h := open(t, 22, fetch) // two units left are not enough for the sixth
	begun := must[jobs.Run](t)(h.Begin(ctx, "trending", jobsapi.RunRequest{}))
	if run := h.ended(); run.ID != begun.ID || run.State != jobs.RunStopped || run.Reason != jobs.BudgetGone {
		t.Fatalf("got %+v, want the run stopped by the budget", run)
	}

	status := must[jobsapi.Status](t)(h.Status(ctx))
	if got := status.Credentials[0].Limits[0].Remaining; got != 0 {
		t.Errorf("%d units remain, want 0", got)
	}
	j := status.Jobs[0]
	if j.Name != "trending" || j.Cursor != "BR" || j.Schedule != "every 365d" || j.Next.Before(time.Now()) {
		t.Errorf("got %+v, want the cursor at BR", j)
	}
	last := j.Last
	if last.ID != begun.ID || last.Trigger != jobs.Manual || !strings.HasPrefix(last.By, "@") || len(last.Passes) != 6 || last.RetryAt.IsZero() {
		t.Fatalf("got %+v, want six passes", last)
	}
	for _, pass := range last.Passes[:5] {
		if pass.Outcome != jobs.OK || pass.Units != 4 || pass.Calls != 4 || pass.Tail != nil || pass.Process != nil {
			t.Errorf("got %+v, want it ok and 4 units spent", pass)
		}
	}
	// It exited with 3; that it was denied is on record.
	if pass := last.Passes[5]; pass.Region != "BR" || pass.Outcome != jobs.Exhausted || pass.Units != 2 {
		t.Errorf("got %+v, want it exhausted after 2 units", pass)
	}
	whole := must[jobs.Run](t)(h.Run(ctx, begun.ID))
	if got := whole.Passes[0].Tail; !slices.Equal(got, []string{"fetched US"}) {
		t.Errorf("got %q, want what the pass wrote", got)
	}
	for written, want := range map[int]string{-1: "0 of 0", 0: "6 of 6, from US", 4: "2 of 6, from IN"} {
		p := must[jobs.Progress](t)(h.Await(ctx, begun.ID, 0, written))
		got := fmt.Sprintf("%d of %d", len(p.Output), p.Written)
		if len(p.Output) > 0 {
			got += ", from " + string(p.Output[0].Region)
		}
		if got != want {
			t.Errorf("the lines after %d: got %s, want %s", written, got, want)
		}
	}
}

// What the gate says no to does not become a process.
func TestGateAgainstABudget(t *testing.T) {
	ctx := t.Context()
	fetch := job(t, "trending", "fetch")
	fetch.Expects = map[string]quota.Units{"videos.list": 4}
	h := open(t, 22, fetch)
	must[jobs.Run](t)(h.Begin(ctx, "trending", jobsapi.RunRequest{}))
	run := h.ended()
	if pass := run.Passes[5]; run.Reason != jobs.DoesNotFit || pass.Outcome != jobs.NotLaunched || pass.RetryAt.IsZero() {
		t.Errorf("got %+v, want BR not launched", run)
	}
	if got := must[jobsapi.Status](t)(h.Status(ctx)).Credentials[0].Limits[0].Remaining; got != 2 {
		t.Errorf("%d units remain, want 2", got)
	}
}

func TestStopARun(t *testing.T) {
	ctx := t.Context()
	h := open(t, 100, job(t, "trending", "wait"))
	run := must[jobs.Run](t)(h.Begin(ctx, "trending", jobsapi.RunRequest{}))
	<-h.lines // it runs
	_, err := h.Begin(ctx, "trending", jobsapi.RunRequest{})
	h.refused(err, http.StatusConflict)

	must[jobs.Run](t)(h.StopRun(ctx, run.ID))
	if ended := h.ended(); ended.State != jobs.RunInterrupted || ended.Reason != jobs.Operator || ended.Passes[0].Outcome != jobs.Interrupted {
		t.Errorf("got %+v, want it interrupted by an operator", ended)
	}
	_, err = h.StopRun(ctx, run.ID)
	h.refused(err, http.StatusNotFound)
	runs := must[[]jobs.Run](t)(h.Runs(ctx, jobsapi.Selection{Job: "trending"}))
	if len(runs) != 1 || runs[0].ID != run.ID {
		t.Errorf("got %+v, want the one run", runs)
	}
}

func TestPause(t *testing.T) {
	ctx := t.Context()
	h := open(t, 100, job(t, "trending", "fetch"), job(t, "channels", "fetch"))
	before := time.Now()
	j := must[jobsapi.Job](t)(h.Pause(ctx, "trending", jobsapi.PauseRequest{Note: "the key is being changed", ForMs: 60_000}))
	if j.Pause == nil || j.Pause.Note != "the key is being changed" || j.Pause.Until.Before(before.Add(time.Minute)) || !strings.HasPrefix(j.Pause.By, "@") {
		t.Errorf("got %+v, want it paused for a minute", j.Pause)
	}
	if j := must[jobsapi.Job](t)(h.Resume(ctx, "trending")); j.Pause != nil {
		t.Errorf("got %+v, want it resumed", j.Pause)
	}
	list := must[[]jobsapi.Job](t)(h.Jobs(ctx))
	if len(list) != 2 || list[0].Cursor != "US" || list[1].Cursor != "US" {
		t.Errorf("got %+v, want both jobs in their order", list)
	}

	must[jobsapi.Job](t)(h.Pause(ctx, "channels", jobsapi.PauseRequest{}))
	next := must[[]jobs.Upcoming](t)(h.Schedule(ctx, jobsapi.Selection{Job: "channels", Most: 2}))
	if len(next) != 2 || !next[0].Paused || next[0].Passes[0].Region != "US" || !next[1].Slot.After(next[0].Slot) {
		t.Errorf("got %+v, want two runs from US that will be skipped", next)
	}
	if next := must[[]jobs.Upcoming](t)(h.Schedule(ctx, jobsapi.Selection{})); len(next) != 20 {
		t.Errorf("got %d runs to come, want 20", len(next))
	}
}

func TestBadRequests(t *testing.T) {
	h := open(t, 100, job(t, "trending", "fetch"))
	for _, test := range []struct {
		name, method, path string
		body               any
		status             int
	}{
		{"a job that is not there", "GET", "/v1/jobs/other", nil, 404},
		{"a run that is not there", "GET", "/v1/runs/0", nil, 404},
		{"runs of a job that is not there", "GET", "/v1/runs?job=other", nil, 404},
		{"the schedule of a job that is not there", "GET", "/v1/schedule?job=other", nil, 404},
		{"no runs at all", "GET", "/v1/runs?most=0", nil, 400},
		{"too many runs", "GET", "/v1/runs?most=1001", nil, 400},
		{"not a number", "GET", "/v1/runs?most=many", nil, 400},
		{"an unknown field", "GET", "/v1/runs?limit=3", nil, 400},
		{"a region that is not there", "POST", "/v1/jobs/trending/run", map[string]any{"regions": []string{"XX"}}, 404},
		{"a region that is none", "POST", "/v1/jobs/trending/run", map[string]any{"regions": []string{"U\nS"}}, 400},
		{"a region twice", "POST", "/v1/jobs/trending/run", map[string]any{"regions": []string{"US", "US"}}, 400},
		{"a run of a job that is not there", "POST", "/v1/jobs/other/run", nil, 404},
		{"a pause of a job that is not there", "POST", "/v1/jobs/other/pause", nil, 404},
		{"a pause into the past", "POST", "/v1/jobs/trending/pause", map[string]any{"for_ms": -1}, 400},
		{"a resume of a job that is not there", "POST", "/v1/jobs/other/pause", map[string]any{"end": true}, 404},
		{"a cursor at a region that is not there", "POST", "/v1/jobs/trending/cursor", map[string]any{"region": "XX"}, 404},
		{"a stop of a run that is not there", "POST", "/v1/runs/0/stop", nil, 404},
	} {
		t.Run(test.name, func(t *testing.T) {
			h.t = t
			h.refused(h.Do(t.Context(), test.method, test.path, test.body, nil), test.status)
		})
	}
	select {
	case run := <-h.runs:
		t.Errorf("%+v was begun", run)
	default:
	}
}

// A pass may look around; it may not operate.
func TestRunTokenDoesNotOperate(t *testing.T) {
	h := open(t, 100, job(t, "trending", "wait"))
	run := must[jobs.Run](t)(h.Begin(t.Context(), "trending", jobsapi.RunRequest{}))
	var token string
	must[int](t)(fmt.Sscanf(<-h.lines, "%x", &token))
	pass := jobsapi.Client{Client: &api.Client{Socket: h.Client.Client.Socket, Token: token}}
	must[[]jobsapi.Job](t)(pass.Jobs(t.Context()))
	_, err := pass.StopRun(t.Context(), run.ID)
	h.refused(err, http.StatusForbidden)
	_, err = pass.Pause(t.Context(), "trending", jobsapi.PauseRequest{})
	h.refused(err, http.StatusForbidden)

	must[jobs.Run](t)(h.StopRun(t.Context(), run.ID))
	h.ended()
	_, err = pass.Jobs(t.Context())
	h.refused(err, http.StatusForbidden) // the token died with its pass
}

// The empty lists are lists, not null.
func TestEmptyLists(t *testing.T) {
	h := open(t, 100)
	for _, path := range []string{"/v1/jobs", "/v1/runs", "/v1/schedule"} {
		var got json.RawMessage
		if err := h.Get(context.Background(), path, &got); err != nil || strings.TrimSpace(string(got)) != "[]" {
			t.Errorf("%s: got %s, %v, want []", path, got, err)
		}
	}
}
