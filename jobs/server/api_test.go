package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	jobsserver "quotad/jobs/server"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
	"quotad/regions"
)

// A house is a runner with the API on a socket of its own. It is the launcher of its passes, which write their tokens
// and wait for their end.
type house struct {
	jobsapi.Client
	t      *testing.T
	tokens chan string
}

func (h *house) Launch(ask, _ context.Context, c jobs.Command, output func(jobs.Line)) jobs.Exit {
	output(jobs.Line{Stream: "stdout", Text: "begins"})
	for _, variable := range c.Env {
		if token, ok := strings.CutPrefix(variable, "QUOTAD_TOKEN="); ok {
			h.tokens <- token
		}
	}
	<-ask.Done()
	return jobs.Exit{Code: -1, Cause: context.Cause(ask)}
}

func job(name string, expects map[string]quota.Units) *jobs.Job {
	return &jobs.Job{
		Name: name, Credential: "youtube", Regions: regions.Ring{"US", "GB"}, Schedule: jobs.Every{Period: 7 * time.Hour},
		Command: []string{"/bin/fetch"}, Timeout: time.Minute, Expects: expects,
	}
}

func open(t *testing.T, list ...*jobs.Job) *house {
	t.Helper()
	h := &house{t: t, tokens: make(chan string, 10)}
	service, err := quota.NewService(ledgertest.NewModel(time.Now), []*quota.Credential{{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: 130, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"videos.list": {Every: 1}},
	}}, time.Second)
	must[any](t)(nil, err)
	dir := servertest.ShortDir(t)
	socket, tokens := filepath.Join(dir, "quotad.sock"), new(jobs.Tokens)
	runner := must[*jobs.Runner](t)(jobs.Open(jobs.Config{
		Jobs: list, Gate: service, Launcher: h, Tokens: tokens, Dir: filepath.Join(dir, "jobs"), Socket: socket, Now: time.Now,
	}))
	listener, err := server.Listen(socket)
	must[any](t)(nil, err)
	planner := &plan.Planner{Runner: runner, Service: service}
	servertest.Serve(t, server.Config{
		Service: service, Tokens: tokens, Version: "v1", AdminGroup: servertest.OwnGroup(t), Routes: append(jobsserver.Routes(runner), jobsserver.PlanRoute(planner)),
		Status: map[string]func(context.Context) any{"jobs": jobsserver.Section(runner), "rates": jobsserver.RatesSection(planner)},
	}, listener)
	t.Cleanup(func() {
		ask, cancel := context.WithCancel(context.Background())
		cancel()
		runner.Stop(ask, context.Background())
	})
	h.Client = jobsapi.Client{Client: &api.Client{Socket: socket}}
	return h
}

// must fails the test if a call was refused.
func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// refused fails the test unless a call was refused with that status, in words among which some are.
func (h *house) refused(what string, err error, status int, says string) {
	h.t.Helper()
	if p, ok := err.(*api.Problem); !ok || p.Status != status || !strings.Contains(p.Detail+"; "+p.Hint, says) {
		h.t.Errorf("%s: got %v, %q, want a problem of status %d %s with %q", what, err, api.Hint(err), status, http.StatusText(status), says)
	}
}

// A pass may look around, but not operate. An operator stops the run, and its token dies.
func TestARun(t *testing.T) {
	ctx, h := t.Context(), open(t, job("trending", nil))
	begun := must[jobs.Run](t)(h.Begin(ctx, "trending", jobsapi.RunRequest{Regions: []string{"GB"}}))
	if begun.Trigger != jobs.Manual || !strings.HasPrefix(begun.By, "@") || !begun.Chosen {
		t.Errorf("got %+v, want a run of a region that somebody chose", begun)
	}
	pass := jobsapi.Client{Client: &api.Client{Socket: h.Client.Client.Socket, Token: <-h.tokens}}
	must[[]jobsapi.Job](t)(pass.Jobs(ctx))
	_, err := pass.StopRun(ctx, begun.ID)
	h.refused("a pass that stops its run", err, http.StatusForbidden, "run token")
	_, err = pass.Pause(ctx, "trending", jobsapi.PauseRequest{})
	h.refused("a pass that pauses its job", err, http.StatusForbidden, "run token")
	_, err = pass.Begin(ctx, "trending", jobsapi.RunRequest{})
	h.refused("a pass that begins a run", err, http.StatusForbidden, "run token")
	_, err = h.Begin(ctx, "trending", jobsapi.RunRequest{})
	h.refused("another run", err, http.StatusConflict, "quotactl stop "+begun.ID)

	must[jobs.Run](t)(h.StopRun(ctx, begun.ID))
	over := must[jobs.Progress](t)(h.Await(ctx, begun.ID, 1, -1))
	if over.State != jobs.RunInterrupted || over.Reason != jobs.Operator || len(over.Passes[0].Tail) != 1 || over.Passes[0].Process != nil {
		t.Errorf("got %+v, want it interrupted by an operator, and what it wrote", over)
	}
	_, err = pass.Jobs(ctx)
	h.refused("the token of before", err, http.StatusForbidden, "run token")
	_, err = h.StopRun(ctx, begun.ID)
	h.refused("a stop of what is over", err, http.StatusNotFound, "it is over (interrupted): quotactl runs "+begun.ID)
	runs := must[[]jobs.Run](t)(h.Runs(ctx, jobsapi.Selection{Job: "trending"}))
	last := must[[]jobsapi.Job](t)(h.Jobs(ctx))[0].Last
	if len(runs) != 1 || runs[0].ID != begun.ID || runs[0].Passes[0].Tail != nil || last.ID != begun.ID || last.Passes[0].Tail != nil {
		t.Errorf("got %+v and %+v, want the one run, without what it wrote", runs, last)
	}
}

func TestBadRequests(t *testing.T) {
	h := open(t, job("trending", nil), job("backfill", nil))
	run := func(regions ...string) any { return map[string]any{"regions": regions} }
	pause := func(ms int64) any { return map[string]any{"for_ms": ms} }
	const year = 366 * 24 * 3600_000
	for _, row := range []struct {
		name, method, path string
		body               any
		status             int // 200: it is good
		says               string
	}{
		{"a job that is not there", "GET", "/v1/jobs/other", nil, 404, "trending"},
		{"a job that is mistyped", "GET", "/v1/jobs/trendign", nil, 404, "did you mean trending?"},
		{"a run that is not there", "GET", "/v1/runs/0", nil, 404, "quotactl runs lists them"},
		{"runs of a job that is not there", "GET", "/v1/runs?job=other", nil, 404, "other"},
		{"no runs", "GET", "/v1/runs?most=0", nil, 400, "from 1 to 1000: 0"},
		{"as many runs as there may be", "GET", "/v1/runs?most=1000", nil, 200, ""},
		{"too many runs", "GET", "/v1/runs?most=1001", nil, 400, "from 1 to 1000: 1001"},
		{"an unknown field", "GET", "/v1/runs?limit=3", nil, 400, `"limit"`},
		{"a wait into the past", "GET", "/v1/runs/0?wait_ms=-1", nil, 400, "wait_ms"},
		{"a wait that is too long", "GET", "/v1/runs/0?wait_ms=4001", nil, 400, "wait_ms"},
		{"fewer passes than none", "GET", "/v1/runs/0?ended=-1", nil, 400, "ended"},
		{"a region that is mistyped", "POST", "/v1/jobs/trending/run", run("US", "GBB"), 404, "did you mean GB?"},
		{"a region that is none", "POST", "/v1/jobs/trending/run", run("U\nS"), 400, "printed"},
		{"a run of a job that is not there", "POST", "/v1/jobs/other/run", nil, 404, "trending"},
		{"a pause of a job that is not there", "POST", "/v1/jobs/other/pause", nil, 404, "trending"},
		{"a pause into the past", "POST", "/v1/jobs/trending/pause", pause(-1), 400, "for_ms"},
		{"a pause of a year", "POST", "/v1/jobs/trending/pause", pause(year), 200, ""},
		{"a longer pause", "POST", "/v1/jobs/trending/pause", pause(year + 1), 400, "for_ms"},
		{"a stop of a run that is not there", "POST", "/v1/runs/0/stop", nil, 404, "quotactl runs lists them"},
	} {
		err := h.Do(t.Context(), row.method, row.path, row.body, nil)
		if row.status == 200 && err != nil {
			t.Errorf("%s: %v", row.name, err)
		} else if row.status != 200 {
			h.refused(row.name, err, row.status, row.says)
		}
	}
	if paused := must[[]jobsapi.Job](t)(h.Jobs(t.Context()))[0].Pause; paused == nil {
		t.Error("trending is not paused")
	}
	if resumed := must[jobsapi.Job](t)(h.Pause(t.Context(), "trending", jobsapi.PauseRequest{End: true})); resumed.Pause != nil {
		t.Errorf("got %+v, want it resumed", resumed)
	}
	var got json.RawMessage // an empty list is a list
	if err := h.Get(t.Context(), "/v1/runs", &got); err != nil || strings.TrimSpace(string(got)) != "[]" {
		t.Errorf("got %s, %v, want no run", got, err)
	}
}

// The sum is of what passes expect. A job of which nothing is known is named. What callers outside the schedule spend
// within an hour uses a limit up.
func TestPlan(t *testing.T) {
	ctx, h := t.Context(), open(t, job("trending", map[string]quota.Units{"videos.list": 4}), job("silent", nil))
	p := must[plan.Plan](t)(h.Plan(ctx))
	if got := fmt.Sprintf("%s; %v", &p.Limits[0], p.Unknown); got != "fits: 32 of 130 units asked in any 24h, 98 left; [silent]" {
		t.Errorf("got %s", got)
	}
	must[api.Decision](t)(h.Acquire(ctx, api.AcquireRequest{Credential: "youtube", Operation: "videos.list", Count: 20}))
	must[api.Booked](t)(h.Book(ctx, "youtube", quota.Booking{Limit: "daily", Units: 5})) // is no rate
	rate := plan.RateOf(must[jobsapi.Status](t)(h.Status(ctx)).Rates, "youtube", "daily")
	if hours := time.Until(rate.GoneAt).Hours(); rate.PerHour != 20 || hours < 4 || hours > 5 || !strings.HasPrefix(rate.Spender, "@") {
		t.Errorf("got %+v, want 20 an hour by a user, and the budget used up in five hours", rate)
	}
}
