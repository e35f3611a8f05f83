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

const (
	usualList    = 20 // the length of a list if the caller names none
	maxList      = 1000
	longestPause = 366 * 24 * time.Hour
)

// handlers answer for a runner.
type handlers struct {
	runner *jobs.Runner
}

func (h handlers) list(job string) ([]jobsapi.Job, error) {
	list, err := h.runner.Status(job)
	for _, j := range list {
		brief(j.Last)
		brief(j.Skips)
	}
	return list, h.problem(err, subject{job: job})
}

func (h handlers) jobs(context.Context, *server.Session, server.None) ([]jobsapi.Job, error) {
	return h.list("")
}

func (h handlers) job(_ context.Context, c *server.Session, _ server.None) (jobsapi.Job, error) {
	return h.changed(c, nil)
}

// changed returns the job in the path, as it is after a change that failed with err or succeeded.
func (h handlers) changed(c *server.Session, err error) (jobsapi.Job, error) {
	job := c.Path("job")
	if err != nil {
		return jobsapi.Job{}, h.problem(err, subject{job: job})
	}
	all, err := h.list(job)
	if err != nil {
		return jobsapi.Job{}, err
	}
	return all[0], nil
}

func (h handlers) begin(_ context.Context, c *server.Session, in jobsapi.RunRequest) (jobs.Run, error) {
	list := make([]regions.Region, len(in.Regions))
	for i, region := range in.Regions {
		list[i] = regions.Region(region)
	}
	run, err := h.runner.Run(c.Path("job"), c.Caller.By(), list...)
	return *brief(&run), h.problem(err, subject{job: c.Path("job"), regions: list})
}

func (h handlers) pause(_ context.Context, c *server.Session, in jobsapi.PauseRequest) (jobsapi.Job, error) {
	if in.ForMs < 0 || in.ForMs > longestPause.Milliseconds() {
		return jobsapi.Job{}, api.NewProblem(quota.BadRequest, "for_ms must be from 0, for ever, to %d: %d", longestPause.Milliseconds(), in.ForMs)
	}
	if in.End {
		return h.changed(c, h.runner.Resume(c.Path("job")))
	}
	return h.changed(c, h.runner.Pause(c.Path("job"), c.Caller.By(), in.Note, time.Duration(in.ForMs)*time.Millisecond))
}

// brief removes from a run, which may be nil, what only its own page shows, and its processes.
// The last lines of a pass under way stay.
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

func (h handlers) runs(_ context.Context, _ *server.Session, in jobsapi.Selection) ([]jobs.Run, error) {
	if in.Most < 1 || in.Most > maxList {
		return nil, api.NewProblem(quota.BadRequest, "most must be from 1 to %d: %d", maxList, in.Most)
	}
	runs, err := h.runner.Runs(in.Job, in.Most)
	for i := range runs {
		brief(&runs[i])
	}
	return append([]jobs.Run{}, runs...), h.problem(err, subject{job: in.Job})
}

func (h handlers) run(ctx context.Context, c *server.Session, in jobsapi.RunQuery) (jobs.Progress, error) {
	if in.WaitMs < 0 || in.WaitMs > jobsapi.MaxWait.Milliseconds() || in.Ended < 0 {
		return jobs.Progress{}, api.NewProblem(quota.BadRequest, "wait_ms must be from 0 to %d, and ended at least 0: %d, %d", jobsapi.MaxWait.Milliseconds(), in.WaitMs, in.Ended)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(in.WaitMs)*time.Millisecond)
	defer cancel()
	run, err := h.runner.AwaitRun(ctx, c.Path("run"), in.Ended, in.Written)
	for i := range run.Passes {
		run.Passes[i].Process = nil
	}
	return run, h.problem(err, subject{run: c.Path("run")})
}

func (h handlers) stop(_ context.Context, c *server.Session, _ server.None) (jobs.Run, error) {
	id := c.Path("run")
	err := h.runner.StopRun(id)
	if err != nil {
		return jobs.Run{}, h.problem(err, subject{run: id})
	}
	run, err := h.runner.RunOf(id)
	return *brief(&run), h.problem(err, subject{run: id})
}
