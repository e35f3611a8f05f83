package server

import (
	"context"

	"quotad/quota"
	"quotad/quota/api"
)

const mostHolders = 10

// whyRequest is what GET /v1/credentials/{name}/why takes.
type whyRequest struct {
	Operation string `json:"operation"`
	Count     int64  `json:"count"`
}

func (s *Server) why(ctx context.Context, c *Session, in whyRequest) (api.Why, error) {
	r := quota.Request{Credential: c.Path("name"), Operation: in.Operation, Count: quota.Units(in.Count)}
	e, err := s.keeper.Why(ctx, r)
	if err != nil {
		return api.Why{}, err
	}
	switch e.Reason {
	case "", quota.LimitExceeded, quota.CostExceedsLimit:
		return whyOf(r, e), nil
	default: // nothing that could be explained
		return api.Why{}, refusalOf(e.Decision)
	}
}

func whyOf(r quota.Request, e quota.Explanation) api.Why {
	w := api.Why{
		Credential: r.Credential, Operation: r.Operation, Count: int64(r.Count), Units: int64(e.Units),
		Granted: e.Granted(), Outage: e.Outage, Reason: string(e.Reason), Limit: e.Limit,
		RetryAfterMs: e.RetryAfter.Milliseconds(), RetryAt: timeOf(e.RetryAt),
		FitsCount: int64(e.Fits), ReserveAllows: e.ReserveAllows,
		Limits: limitsOf(e.Limits), Obstacles: make([]api.Obstacle, len(e.Obstacles)),
	}
	for i, o := range e.Obstacles {
		w.Obstacles[i] = api.Obstacle{
			Limit: o.Name, Cost: int64(o.Cost), Missing: int64(o.Missing), Held: int64(o.Used + o.GivenBack), GivenBack: int64(o.GivenBack),
			Jobs: holdersOf(o.Jobs), Regions: holdersOf(o.Regions), Operations: holdersOf(o.Operations),
		}
	}
	return w
}

func holdersOf(list []quota.Holder) []api.Holder {
	holders := make([]api.Holder, min(len(list), mostHolders))
	for i := range holders {
		holders[i] = api.Holder{Name: list[i].Name, Units: int64(list[i].Units)}
	}
	return holders
}
