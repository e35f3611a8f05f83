package server

import (
	"context"
	"time"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
	"quotad/regions"
)

func (h handlers) list(job string) ([]jobsapi.Job, error) {
	all, err := h.runner.Status(job)
	if err != nil {
		return nil, h.problem(err, subject{job: job})
	}
	list := make([]jobsapi.Job, len(all))
	for i := range all {
		list[i] = jobOf(all[i])
	}
	return list, nil
}

func (h handlers) jobs(context.Context, *server.Session, server.None) ([]jobsapi.Job, error) {
	return h.list("")
}

func (h handlers) job(_ context.Context, c *server.Session, _ server.None) (jobsapi.Job, error) {
	return h.one(c)
}

// one returns the job in the path.
func (h handlers) one(c *server.Session) (jobsapi.Job, error) {
	list, err := h.list(c.Path("job"))
	if err != nil {
		return jobsapi.Job{}, err
	}
	return list[0], nil
}

func (h handlers) begin(_ context.Context, c *server.Session, in jobsapi.RunRequest) (jobs.Run, error) {
	list := make([]regions.Region, len(in.Regions))
	for i, region := range in.Regions {
		list[i] = regions.Region(region)
	}
	set := make([]jobs.Variable, len(in.Set))
	for i, v := range in.Set {
		set[i] = jobs.Variable(v)
	}
	run, err := h.runner.Run(c.Path("job"), c.Caller.By(), set, list...)
	if err != nil {
		return jobs.Run{}, h.problem(err, subject{job: c.Path("job"), regions: list})
	}
	return *brief(&run), nil
}

const longestPause = 366 * 24 * time.Hour

func (h handlers) pause(_ context.Context, c *server.Session, in jobsapi.PauseRequest) (jobsapi.Job, error) {
	if in.ForMs < 0 || in.ForMs > longestPause.Milliseconds() {
		return jobsapi.Job{}, api.NewProblem(quota.BadRequest, "for_ms must be from 0, for ever, to %d: %d", longestPause.Milliseconds(), in.ForMs)
	}
	length := time.Duration(in.ForMs) * time.Millisecond
	if err := h.runner.Pause(c.Path("job"), c.Caller.By(), in.Note, length); err != nil {
		return jobsapi.Job{}, h.problem(err, subject{job: c.Path("job")})
	}
	return h.one(c)
}

func (h handlers) resume(_ context.Context, c *server.Session, _ server.None) (jobsapi.Job, error) {
	if err := h.runner.Resume(c.Path("job")); err != nil {
		return jobsapi.Job{}, h.problem(err, subject{job: c.Path("job")})
	}
	return h.one(c)
}

func (h handlers) cursor(_ context.Context, c *server.Session, in jobsapi.CursorRequest) (jobsapi.Job, error) {
	if err := h.runner.SetCursor(c.Path("job"), regions.Region(in.Region)); err != nil {
		return jobsapi.Job{}, h.problem(err, subject{job: c.Path("job"), regions: []regions.Region{regions.Region(in.Region)}})
	}
	return h.one(c)
}

func jobOf(s jobs.Status) jobsapi.Job {
	return jobsapi.Job{
		Name:        s.Job.Name,
		Credential:  s.Job.Credential,
		Schedule:    s.Job.Schedule.String(),
		Regions:     s.Job.Regions,
		Expects:     s.Job.Expects,
		UseReserve:  s.Job.UseReserve,
		UnitsPerRun: s.Job.UnitsPerRun,
		Cursor:      s.Cursor,
		NextRun:     s.Next,
		Pause:       s.Pause,
		OverdueAt:   s.Due,
		LastRun:     brief(s.Last),
		Skipped:     brief(s.Skips),
	}
}

// brief leaves out of a run, which may be nil, what only its own page tells, and
// what is nobody's business. What a pass under way has just written is told.
func brief(r *jobs.Run) *jobs.Run {
	if r == nil {
		return nil
	}
	for i := range r.Passes {
		if r.Passes[i].Process = nil; r.Passes[i].Outcome != jobs.Running {
			r.Passes[i].Tail = nil
		}
	}
	if r.Passes == nil {
		r.Passes = []jobs.Pass{}
	}
	return r
}
