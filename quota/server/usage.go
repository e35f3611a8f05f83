package server

import (
	"context"
	"slices"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// usageRequest is what GET /v1/credentials/{name}/usage takes.
type usageRequest struct {
	By    string `json:"by"`
	Since since  `json:"since"`
	Most  *int64 `json:"most"` // nil: all
}

func (q usageRequest) query() (quota.BreakdownQuery, error) {
	b := quota.BreakdownQuery{By: quota.Dimension(q.By)}
	if !slices.Contains(quota.Dimensions(), b.By) {
		return b, api.NewProblem(quota.BadRequest, "by must be one of %v: %.40q", quota.Dimensions(), q.By)
	}
	if q.Most == nil {
		return b, nil
	}
	if b.Most = int(*q.Most); b.Most < 1 {
		return b, api.NewProblem(quota.BadRequest, "most must be at least 1: %d", b.Most)
	}
	return b, nil
}

func (s *Server) usage(ctx context.Context, c *Session, in usageRequest) (api.Usage, error) {
	name := c.Path("name")
	q, err := in.query()
	if err != nil {
		return api.Usage{}, err
	}
	state, err := s.usageOf(ctx, name)
	if err != nil {
		return api.Usage{}, err
	}
	answer := api.Usage{Credential: name, By: in.By, Since: in.Since.instant(state.Now).UTC(), Until: state.Now.UTC()}
	q.Since = answer.Since
	if in.Since.isZero() {
		q.Now = state.Now
		answer.Since, answer.Windows = windowsAt(state)
	}
	b, known, err := s.Service.Breakdown(ctx, name, q)
	if !known {
		return api.Usage{}, s.unknownCredential(name)
	}
	if err != nil {
		return api.Usage{}, err
	}
	shareOf := func(s quota.Share) api.Share {
		share := api.Share{Name: s.Name, Calls: int64(s.Calls), Units: int64(s.Units), Limits: make(map[string]int64, len(s.In))}
		for i, units := range s.In {
			share.Limits[b.Credential.Limits[i].Name] = int64(units)
		}
		return share
	}
	answer.Shares, answer.Total, answer.Partial = each(b.Shares(), shareOf), shareOf(b.Total), b.Partial
	return answer, nil
}

// windowsAt returns when the window of each limit began, and the earliest of these times.
func windowsAt(state quota.Usage) (earliest time.Time, began map[string]time.Time) {
	earliest, began = state.Now.UTC(), make(map[string]time.Time, len(state.Limits))
	for _, limit := range state.Limits {
		begin, end := limit.Window.Bounds(state.Now)
		if !end.IsZero() {
			begin = begin.Add(time.Millisecond) // the first instant of the period
		}
		began[limit.Name] = begin.UTC()
		if begin.Before(earliest) {
			earliest = begin.UTC()
		}
	}
	return earliest, began
}

const maxHolders = 10

// whyRequest is what GET /v1/credentials/{name}/why takes.
type whyRequest struct {
	Operation string `json:"operation"`
	Count     int64  `json:"count"`
	Job       string `json:"job"`
}

func (s *Server) why(ctx context.Context, c *Session, in whyRequest) (api.Why, error) {
	r := quota.Request{Credential: c.Path("name"), Operation: in.Operation, Count: quota.Units(in.Count), Caller: quota.Caller{Job: in.Job, UID: -1}}
	e, err := s.Service.Why(ctx, r)
	if err != nil {
		return api.Why{}, err
	}
	switch e.Reason {
	case "", quota.LimitExceeded, quota.LimitClosed, quota.CostExceedsLimit:
	default: // there is nothing to explain
		return api.Why{}, ProblemOf(e.Decision)
	}
	return api.Why{
		Credential: r.Credential, Operation: r.Operation, Count: int64(r.Count), Job: r.Caller.Job, Units: int64(e.Units),
		Granted: e.Granted(), Outage: e.Outage, Reason: string(e.Reason), Limit: e.Limit,
		RetryAfterMs: e.RetryAfter.Milliseconds(), RetryAt: timeOf(e.RetryAt),
		WouldDeny: each(e.WouldDeny, shortageOf),
		FitsCount: int64(e.Fits), ReserveAllows: e.ReserveAllows,
		Limits: each(e.Limits, limitOf), Obstacles: each(e.Obstacles, obstacleOf),
	}, nil
}

func obstacleOf(o quota.Obstacle) api.Obstacle {
	return api.Obstacle{
		Limit: o.Name, Cost: int64(o.Cost), Missing: int64(o.Missing), Held: int64(o.Used + o.GivenBack), GivenBack: int64(o.GivenBack),
		Jobs: holdersOf(o.Jobs), Regions: holdersOf(o.Regions), Operations: holdersOf(o.Operations),
	}
}

func holdersOf(list []quota.Holder) []api.Holder {
	return each(list[:min(len(list), maxHolders)], func(h quota.Holder) api.Holder { return api.Holder{Name: h.Name, Units: int64(h.Units)} })
}
