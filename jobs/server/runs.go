package server

import (
	"context"
	"time"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
)

const (
	// usual is how long a list is when nobody says, most how long it may be.
	usual = 20
	most  = 1000
)

func check(s jobsapi.Selection) error {
	if s.Most < 1 || s.Most > most {
		return api.NewProblem(quota.BadRequest, "most must be from 1 to %d: %d", most, s.Most)
	}
	return nil
}

func (h handlers) runs(_ context.Context, _ *server.Session, in jobsapi.Selection) ([]jobs.Run, error) {
	if err := check(in); err != nil {
		return nil, err
	}
	runs, err := h.runner.Runs(in.Job, in.Most)
	if err != nil {
		return nil, h.problem(err, subject{job: in.Job})
	}
	list := make([]jobs.Run, len(runs))
	for i := range runs {
		list[i] = *brief(&runs[i])
	}
	return list, nil
}

func (h handlers) run(ctx context.Context, c *server.Session, in jobsapi.RunQuery) (jobs.Run, error) {
	if in.WaitMs < 0 || in.WaitMs > jobsapi.MostWait.Milliseconds() || in.Ended < 0 {
		return jobs.Run{}, api.NewProblem(quota.BadRequest, "wait_ms must be from 0 to %d, and ended at least 0: %d, %d", jobsapi.MostWait.Milliseconds(), in.WaitMs, in.Ended)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(in.WaitMs)*time.Millisecond)
	defer cancel()
	run, err := h.runner.AwaitRun(ctx, c.Path("run"), in.Ended)
	if err != nil {
		return jobs.Run{}, h.problem(err, subject{run: c.Path("run")})
	}
	for i := range run.Passes {
		run.Passes[i].Process = nil
	}
	return run, nil
}

func (h handlers) stop(_ context.Context, c *server.Session, _ server.None) (jobs.Run, error) {
	id := c.Path("run")
	if err := h.runner.StopRun(id); err != nil {
		return jobs.Run{}, h.problem(err, subject{run: id})
	}
	run, err := h.runner.RunOf(id)
	if err != nil {
		return jobs.Run{}, h.problem(err, subject{run: id})
	}
	return *brief(&run), nil
}

func (h handlers) schedule(_ context.Context, _ *server.Session, in jobsapi.Selection) ([]jobs.Upcoming, error) {
	if err := check(in); err != nil {
		return nil, err
	}
	list, err := h.runner.Upcoming(in.Job, in.Most)
	if err != nil {
		return nil, h.problem(err, subject{job: in.Job})
	}
	return append([]jobs.Upcoming{}, list...), nil
}
