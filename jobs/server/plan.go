package server

import (
	"context"
	"net/http"
	"time"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
)

const usualDays = 7

// PlanRoute returns the route that plays a runner's jobs against the limits of a
// service's credentials.
func PlanRoute(r *jobs.Runner, k *quota.Service) server.Route {
	p := planner{r, k}
	return server.Route{
		Method: http.MethodGet, Path: "/v1/plan", Access: server.Read,
		Does: "the schedule played against the limits: who runs dry, and what would do; days", Handle: server.LongRead(server.Handle(p.plan, jobsapi.PlanRequest{Days: usualDays})),
	}
}

// A planner plays a runner's jobs against a service's limits.
type planner struct {
	runner  *jobs.Runner
	service *quota.Service
}

func (p planner) plan(ctx context.Context, _ *server.Session, ask jobsapi.PlanRequest) (*plan.Plan, error) {
	if ask.Days < 1 || ask.Days > jobsapi.MostDays {
		return nil, api.NewProblem(quota.BadRequest, "days must be from 1 to %d: %d", jobsapi.MostDays, ask.Days)
	}
	states, now := p.runner.JobStates()
	in := plan.SimInput{From: now.Truncate(time.Millisecond), Jobs: states}
	for _, c := range p.service.Credentials() {
		limits, known, err := slidinglog.Simulate(ctx, p.service, c.Name)
		if err != nil {
			return nil, err
		}
		if known { // otherwise it went while we looked
			in.Limits = append(in.Limits, limits)
		}
	}
	return plan.Simulate(in, in.From.Add(time.Duration(ask.Days)*24*time.Hour)), nil
}
