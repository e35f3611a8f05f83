package server

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
)

const usualDays = 7

// PlanRoute returns the route that simulates the jobs against the limits.
func PlanRoute(p *plan.Planner) server.Route {
	return server.Route{
		Method: http.MethodGet, Path: "/v1/plan", Access: server.Read,
		Does: "the schedule played against the limits: who runs dry, and what would help; days, max_age_ms, with",
		Handle: server.LongRead(server.Handle(func(ctx context.Context, _ *server.Session, ask jobsapi.PlanRequest) (*plan.Plan, error) {
			if ask.Days < 1 || ask.Days > jobsapi.MaxDays {
				return nil, api.NewProblem(quota.BadRequest, "days must be from 1 to %d: %d", jobsapi.MaxDays, ask.Days)
			}
			with, err := furtherSlots(p, ask.With)
			if err != nil {
				return nil, err
			}
			return p.Plan(ctx, plan.Ask{Days: ask.Days, MaxAge: time.Duration(ask.MaxAgeMs) * time.Millisecond, With: with})
		}, jobsapi.PlanRequest{Days: usualDays})),
	}
}

// furtherSlots reads a list of "JOB@TIME".
func furtherSlots(p *plan.Planner, list []string) (slots map[string][]time.Time, err error) {
	for _, text := range list {
		job, when, _ := strings.Cut(text, "@")
		at, err := time.Parse(time.RFC3339, when)
		if err != nil {
			return nil, api.NewProblem(quota.BadRequest, "with must be JOB@TIME, such as backfill@2026-11-24T02:00:00Z: %.80q", text)
		}
		if names := p.Jobs(); !slices.Contains(names, job) {
			return nil, api.NewProblem(api.NotFound, "there is no job %.80q", job).WithHint(quota.DidYouMean(job, names, "jobs"))
		}
		if slots == nil {
			slots = make(map[string][]time.Time)
		}
		slots[job] = append(slots[job], at)
	}
	return slots, nil
}

// ForecastSection returns the section of the status that says when limits will be used up. It is
// empty while the ledger does not answer.
func ForecastSection(p *plan.Planner) func(context.Context) any {
	return func(ctx context.Context) any {
		list, err := p.Forecast(ctx)
		if err != nil {
			return []plan.Forecast{}
		}
		return list
	}
}
