package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"quotad/jobs"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/slidinglog"
)

const (
	usualDays = 7
	// MostDays is how far ahead a plan may look.
	MostDays = 31
)

// PlanRoute returns the route that plays a runner's jobs against the limits of a
// keeper's credentials.
func PlanRoute(r *jobs.Runner, k *quota.Service) api.Route {
	p := planner{r, k}
	return api.Route{
		Method: http.MethodGet, Path: "/v1/plan", Access: api.Read,
		Does: "the schedule played against the limits: who runs dry, and what would do; days", Handle: api.LongRead(api.Handle(p.plan, PlanRequest{Days: usualDays})),
	}
}

// A planner plays a runner's jobs against a keeper's limits.
type planner struct {
	runner *jobs.Runner
	keeper *quota.Service
}

// PlanRequest narrows down a plan.
type PlanRequest struct {
	Days int `json:"days"` // how far ahead, up to MostDays; 0: 7
}

func (p planner) plan(ctx context.Context, _ *api.Call, ask PlanRequest) (*plan.Plan, error) {
	if ask.Days < 1 || ask.Days > MostDays {
		return nil, api.NewProblem(quota.BadRequest, "days must be from 1 to %d: %d", MostDays, ask.Days)
	}
	states, now := p.runner.JobStates()
	in := plan.SimInput{From: now.Truncate(time.Millisecond), Jobs: states}
	for _, c := range p.keeper.Credentials() {
		limits, known, err := slidinglog.Simulate(ctx, p.keeper, c.Name)
		if err != nil {
			return nil, err
		}
		if known { // otherwise it went while we looked
			in.Limits = append(in.Limits, limits)
		}
	}
	return plan.Simulate(in, in.From.Add(time.Duration(ask.Days)*24*time.Hour)), nil
}

// Plan returns what the schedule will do to the limits.
func (c Client) Plan(ctx context.Context, r PlanRequest) (plan.Plan, error) {
	path := "/v1/plan"
	if r.Days != 0 {
		path += "?days=" + strconv.Itoa(r.Days)
	}
	var answer plan.Plan
	err := c.GetLong(ctx, path, &answer)
	return answer, err
}
