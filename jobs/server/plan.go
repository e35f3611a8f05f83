package server

import (
	"context"
	"net/http"

	"quotad/jobs/plan"
	"quotad/quota/server"
)

// PlanRoute returns the route that says what the schedule asks of each limit.
func PlanRoute(p *plan.Planner) server.Route {
	return server.Route{
		Method: http.MethodGet, Path: "/v1/plan", Access: server.Read, Does: "what the schedule asks of each limit",
		Handle: server.Handle(func(context.Context, *server.Session, struct{}) (*plan.Plan, error) { return p.Plan(), nil }),
	}
}

// RatesSection returns the section of the status that says how fast limits are spent. It is empty while the ledger does
// not answer.
func RatesSection(p *plan.Planner) func(context.Context) any {
	return func(ctx context.Context) any {
		list, err := p.Rates(ctx)
		if err != nil {
			return []plan.Rate{}
		}
		return list
	}
}
