package server

import (
	"context"
	"net/http"
	"time"

	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
)

const usualDays = 7

// PlanRoute returns the route that plays the jobs against the limits.
func PlanRoute(p *plan.Planner) server.Route {
	return server.Route{
		Method: http.MethodGet, Path: "/v1/plan", Access: server.Read,
		Does: "the schedule played against the limits: who runs dry, and what would do; days, max_age_ms",
		Handle: server.Handle(func(ctx context.Context, _ *server.Session, ask jobsapi.PlanRequest) (*plan.Plan, error) {
			if ask.Days < 1 || ask.Days > jobsapi.MostDays {
				return nil, api.NewProblem(quota.BadRequest, "days must be from 1 to %d: %d", jobsapi.MostDays, ask.Days)
			}
			return p.Plan(ctx, ask.Days, time.Duration(ask.MaxAgeMs)*time.Millisecond)
		}, jobsapi.PlanRequest{Days: usualDays}),
	}
}

// ForecastSection returns the section of the status that tells when limits are gone. It is empty
// while the ledger does not tell.
func ForecastSection(p *plan.Planner) func(context.Context) any {
	return func(ctx context.Context) any {
		list, err := p.Forecast(ctx)
		if err != nil {
			return []plan.Forecast{}
		}
		return list
	}
}
