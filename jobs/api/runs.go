package api

import (
	"context"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/api"
)

const (
	// usual is how long a list is when nobody says, most how long it may be.
	usual = 20
	most  = 1000
)

func (s Selection) check() error {
	if s.Most < 1 || s.Most > most {
		return api.NewProblem(quota.BadRequest, "most must be from 1 to %d: %d", most, s.Most)
	}
	return nil
}

func (s server) runs(_ context.Context, _ *api.Call, in Selection) ([]jobs.Run, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	runs, err := s.runner.Runs(in.Job, in.Most)
	if err != nil {
		return nil, s.problem(err, subject{job: in.Job})
	}
	list := make([]jobs.Run, len(runs))
	for i := range runs {
		list[i] = *brief(&runs[i])
	}
	return list, nil
}

func (s server) run(_ context.Context, c *api.Call, _ api.None) (jobs.Run, error) {
	run, err := s.runner.RunOf(c.Path("run"))
	if err != nil {
		return jobs.Run{}, s.problem(err, subject{run: c.Path("run")})
	}
	for i := range run.Passes {
		run.Passes[i].Process = nil
	}
	return run, nil
}

func (s server) stop(_ context.Context, c *api.Call, _ api.None) (jobs.Run, error) {
	id := c.Path("run")
	if err := s.runner.StopRun(id); err != nil {
		return jobs.Run{}, s.problem(err, subject{run: id})
	}
	run, err := s.runner.RunOf(id)
	if err != nil {
		return jobs.Run{}, s.problem(err, subject{run: id})
	}
	return *brief(&run), nil
}

func (s server) schedule(_ context.Context, _ *api.Call, in Selection) ([]jobs.Upcoming, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	list, err := s.runner.Upcoming(in.Job, in.Most)
	if err != nil {
		return nil, s.problem(err, subject{job: in.Job})
	}
	return append([]jobs.Upcoming{}, list...), nil
}
