package server

import (
	"context"
	"net/http"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota/server"
)

// Routes returns the routes that show a runner's jobs and operate them.
func Routes(r *jobs.Runner) []server.Route {
	h := handlers{r}
	return []server.Route{
		{Method: http.MethodGet, Path: "/v1/jobs", Access: server.Read, Does: "the jobs: cursor, next run, last run", Handle: server.Handle(h.jobs)},
		{Method: http.MethodGet, Path: "/v1/jobs/{job}", Access: server.Read, Does: "one job", Handle: server.Handle(h.job)},
		{Method: http.MethodGet, Path: "/v1/runs", Access: server.Read, Does: "the latest runs and skipped slots; job, most", Handle: server.Handle(h.runs, jobsapi.Selection{Most: usualList})},
		{Method: http.MethodGet, Path: "/v1/runs/{run}", Access: server.Read, Does: "one run, with the last lines of each pass, at once or as soon as more than `ended` are over, or `written` lines written, with the lines after these; wait_ms, ended, written", Handle: server.Handle(h.run, jobsapi.RunQuery{Written: -1})},
		{Method: http.MethodPost, Path: "/v1/jobs/{job}/run", Access: server.Operate, Does: "begin a run now, of all regions or of some; regions", Handle: server.Handle(h.begin)},
		{Method: http.MethodPost, Path: "/v1/jobs/{job}/pause", Access: server.Operate, Does: "keep the schedule from running a job, or end that; for_ms, note, end", Handle: server.Handle(h.pause)},
		{Method: http.MethodPost, Path: "/v1/runs/{run}/stop", Access: server.Operate, Does: "end a run and the pass under way", Handle: server.Handle(h.stop)},
	}
}

// Section returns the member "jobs" of GET /v1/status.
func Section(r *jobs.Runner) func(context.Context) any {
	h := handlers{r}
	return func(context.Context) any {
		list, _ := h.list("") // without an error: only a name can be unknown
		return list
	}
}

// PlanRoute returns the route that says what the schedule asks of each limit.
func PlanRoute(p *plan.Planner) server.Route {
	return server.Route{
		Method: http.MethodGet, Path: "/v1/plan", Access: server.Read, Does: "what the schedule asks of each limit",
		Handle: server.Handle(func(context.Context, *server.Session, struct{}) (*plan.Plan, error) { return p.Plan(), nil }),
	}
}

// RatesSection returns the section of the status that says how fast limits are spent. It is empty while the ledger does
// not answer.
func RatesSection(p *plan.Planner) func(context.Context) any {
	return func(ctx context.Context) any {
		list, err := p.Rates(ctx)
		if err != nil {
			return []plan.Rate{}
		}
		return list
	}
}
