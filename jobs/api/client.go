package api

import (
	"context"
	"net/http"

	"quotad/jobs"
	"quotad/jobs/plan"
	"quotad/quota/api"
)

// A Client asks the daemon for its jobs. The errors are those of the quota
// client's Do. An unknown job or run is a Problem of reason NotFound. If the state of a job or
// run does not allow a request now, the Problem has reason Conflict.
type Client struct {
	*api.Client
}

// Status returns everything at a glance.
func (c Client) Status(ctx context.Context) (Status, error) {
	return api.Ask[Status](ctx, c.Client, http.MethodGet, "/v1/status", nil)
}

// Jobs returns the jobs in the order of configuration.
func (c Client) Jobs(ctx context.Context) ([]Job, error) {
	return api.Ask[[]Job](ctx, c.Client, http.MethodGet, "/v1/jobs", nil)
}

// Job returns one job.
func (c Client) Job(ctx context.Context, job string) (Job, error) {
	return api.Ask[Job](ctx, c.Client, http.MethodGet, api.Path("jobs", job), nil)
}

// Runs returns the latest runs and skipped slots, the latest first.
func (c Client) Runs(ctx context.Context, only Selection) ([]jobs.Run, error) {
	return api.Ask[[]jobs.Run](ctx, c.Client, http.MethodGet, "/v1/runs", only)
}

// Run returns one run, with the last lines of the output of each pass.
func (c Client) Run(ctx context.Context, id string) (jobs.Run, error) {
	return api.Ask[jobs.Run](ctx, c.Client, http.MethodGet, api.Path("runs", id), nil)
}

// Await is Run, but waits for up to MaxWait until the run is over, more than ended of its passes are,
// or they have written more than written lines, which it returns; written below 0: without lines.
func (c Client) Await(ctx context.Context, id string, ended, written int) (jobs.Progress, error) {
	return api.Ask[jobs.Progress](ctx, c.Client, http.MethodGet, api.Path("runs", id), RunQuery{MaxWait.Milliseconds(), ended, written})
}

// Begin begins a run now and returns it as it begins.
func (c Client) Begin(ctx context.Context, job string, r RunRequest) (jobs.Run, error) {
	return api.Ask[jobs.Run](ctx, c.Client, http.MethodPost, api.Path("jobs", job, "run"), r)
}

// StopRun ends a run and the pass under way, without waiting for their end.
func (c Client) StopRun(ctx context.Context, id string) (jobs.Run, error) {
	return api.Ask[jobs.Run](ctx, c.Client, http.MethodPost, api.Path("runs", id, "stop"), nil)
}

// Pause keeps the schedule from running a job.
func (c Client) Pause(ctx context.Context, job string, r PauseRequest) (Job, error) {
	return api.Ask[Job](ctx, c.Client, http.MethodPost, api.Path("jobs", job, "pause"), r)
}

// Resume ends a pause, if there is one.
func (c Client) Resume(ctx context.Context, job string) (Job, error) {
	return c.Pause(ctx, job, PauseRequest{End: true})
}

// Plan returns what the schedule asks of the limits, and whether it fits.
func (c Client) Plan(ctx context.Context) (plan.Plan, error) {
	return api.Ask[plan.Plan](ctx, c.Client, http.MethodGet, "/v1/plan", nil)
}
