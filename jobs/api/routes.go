package api

import (
	"context"
	"net/http"

	"quotad/jobs"
	"quotad/quota/api"
)

// Routes returns the routes that show a runner's jobs and operate them.
func Routes(r *jobs.Runner) []api.Route {
	s := server{r}
	return []api.Route{
		{Method: http.MethodGet, Path: "/v1/jobs", Access: api.Read, Does: "the jobs: cursor, next run, last run", Handle: api.Handle(s.jobs)},
		{Method: http.MethodGet, Path: "/v1/jobs/{job}", Access: api.Read, Does: "one job", Handle: api.Handle(s.job)},
		{Method: http.MethodGet, Path: "/v1/runs", Access: api.Read, Does: "the latest runs and skipped ticks; job, most", Handle: api.Handle(s.runs, Selection{Most: usual})},
		{Method: http.MethodGet, Path: "/v1/runs/{run}", Access: api.Read, Does: "one run, with the last lines of each pass", Handle: api.Handle(s.run)},
		{Method: http.MethodGet, Path: "/v1/schedule", Access: api.Read, Does: "the runs that come next; job, most", Handle: api.Handle(s.schedule, Selection{Most: usual})},
		{Method: http.MethodPost, Path: "/v1/jobs/{job}/run", Access: api.Operate, Does: "begin a run now, of the ring or of some regions; regions", Handle: api.Handle(s.begin)},
		{Method: http.MethodPost, Path: "/v1/jobs/{job}/pause", Access: api.Operate, Does: "keep the schedule from running a job; for_ms, note", Handle: api.Handle(s.pause)},
		{Method: http.MethodPost, Path: "/v1/jobs/{job}/resume", Access: api.Operate, Does: "end a pause", Handle: api.Handle(s.resume)},
		{Method: http.MethodPost, Path: "/v1/jobs/{job}/cursor", Access: api.Operate, Does: "set the region at which the next run begins; region", Handle: api.Handle(s.cursor)},
		{Method: http.MethodGet, Path: "/v1/bookmark", Access: api.Read, Does: "what the last pass of the token's region left", Handle: api.Handle(s.ownBookmark)},
		{Method: http.MethodPut, Path: "/v1/bookmark", Access: api.Spend, Does: "leave something for the next pass of the token's region; bookmark", Handle: api.Handle(s.leaveBookmark)},
		{Method: http.MethodDelete, Path: "/v1/bookmark", Access: api.Spend, Does: "leave nothing", Handle: api.Handle(s.dropBookmark)},
		{Method: http.MethodGet, Path: "/v1/jobs/{job}/bookmarks/{region}", Access: api.Read, Does: "what the last pass of a region left", Handle: api.Handle(s.bookmark)},
		{Method: http.MethodDelete, Path: "/v1/jobs/{job}/bookmarks/{region}", Access: api.Operate, Does: "have the next pass of a region begin anew", Handle: api.Handle(s.clearBookmark)},
		{Method: http.MethodPost, Path: "/v1/runs/{run}/stop", Access: api.Operate, Does: "end a run and the passes under way", Handle: api.Handle(s.stop)},
	}
}

// Section returns the member "jobs" of GET /v1/status.
func Section(r *jobs.Runner) func(context.Context) any {
	s := server{r}
	return func(ctx context.Context) any {
		list, err := s.list("")
		if err != nil {
			return []Job{} // cannot be: only a name can be unknown
		}
		return list
	}
}

// A server answers for a runner.
type server struct {
	runner *jobs.Runner
}
