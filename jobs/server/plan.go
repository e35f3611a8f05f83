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

// PlanRoute returns the route that says what the schedule asks of each limit.
func PlanRoute(p *plan.Planner) server.Route {
	return server.Route{
		Method: http.MethodGet, Path: "/v1/plan", Access: server.Read,
		Does: "what the schedule asks of each limit in its worst window, and what would fit; with",
		Handle: server.LongRead(server.Handle(func(ctx context.Context, _ *server.Session, ask jobsapi.PlanRequest) (*plan.Plan, error) {
			what, err := whatIf(ask.With, p.Jobs())
			if err != nil {
				return nil, err
			}
			return p.Plan(ctx, what)
		}, jobsapi.PlanRequest{})),
	}
}

// whatIf reads a list of "JOB@TIME" and "JOB=every:INTERVAL".
func whatIf(list, known []string) (what []plan.WhatIf, err error) {
	for _, text := range list {
		one := plan.WhatIf{}
		job, when, once := strings.Cut(text, "@")
		if once {
			one.At, err = time.Parse(time.RFC3339, when)
		} else {
			var interval string
			job, interval, _ = strings.Cut(text, "=every:")
			one.Every, err = api.ParseSpan(interval)
		}
		if err != nil || !once && one.Every < time.Second {
			return nil, api.NewProblem(quota.BadRequest, "with must be JOB@TIME or JOB=every:INTERVAL, such as backfill@2026-11-24T02:00:00Z or trending=every:15m: %.80q", text)
		}
		if one.Job = job; !slices.Contains(known, job) {
			return nil, api.NewProblem(api.NotFound, "there is no job %.80q", job).WithHint(quota.DidYouMean(job, known, "jobs"))
		}
		what = append(what, one)
	}
	return what, nil
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
