package api

import (
	"context"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/regions"
)

func (s server) list(job string) ([]Job, error) {
	all, err := s.runner.Status(job)
	if err != nil {
		return nil, s.problem(err, subject{job: job})
	}
	list := make([]Job, len(all))
	for i := range all {
		list[i] = jobOf(all[i])
	}
	return list, nil
}

func (s server) jobs(context.Context, *api.Call, api.None) ([]Job, error) {
	return s.list("")
}

func (s server) job(_ context.Context, c *api.Call, _ api.None) (Job, error) {
	return s.one(c)
}

// one returns the job in the path.
func (s server) one(c *api.Call) (Job, error) {
	list, err := s.list(c.Path("job"))
	if err != nil {
		return Job{}, err
	}
	return list[0], nil
}

func (s server) begin(_ context.Context, c *api.Call, in RunRequest) (jobs.Run, error) {
	list := make([]regions.Region, len(in.Regions))
	for i, region := range in.Regions {
		list[i] = regions.Region(region)
	}
	run, err := s.runner.Run(c.Path("job"), c.Caller.By(), list...)
	if err != nil {
		return jobs.Run{}, s.problem(err, subject{job: c.Path("job"), regions: list})
	}
	return *brief(&run), nil
}

const longestPause = 366 * 24 * time.Hour

func (s server) pause(_ context.Context, c *api.Call, in PauseRequest) (Job, error) {
	if in.ForMs < 0 || in.ForMs > longestPause.Milliseconds() {
		return Job{}, api.NewProblem(quota.BadRequest, "for_ms must be from 0, for ever, to %d: %d", longestPause.Milliseconds(), in.ForMs)
	}
	length := time.Duration(in.ForMs) * time.Millisecond
	if err := s.runner.Pause(c.Path("job"), c.Caller.By(), in.Note, length); err != nil {
		return Job{}, s.problem(err, subject{job: c.Path("job")})
	}
	return s.one(c)
}

func (s server) resume(_ context.Context, c *api.Call, _ api.None) (Job, error) {
	if err := s.runner.Resume(c.Path("job")); err != nil {
		return Job{}, s.problem(err, subject{job: c.Path("job")})
	}
	return s.one(c)
}

func (s server) cursor(_ context.Context, c *api.Call, in CursorRequest) (Job, error) {
	if err := s.runner.SetCursor(c.Path("job"), regions.Region(in.Region)); err != nil {
		return Job{}, s.problem(err, subject{job: c.Path("job"), regions: []regions.Region{regions.Region(in.Region)}})
	}
	return s.one(c)
}
