package api

import (
	"context"
	"time"

	"quotad/quota"
)

// Why is the body of GET /v1/credentials/{name}/why: what would become of calls
// now, and what stands in their way. Asking spends nothing.
type Why struct {
	Credential string `json:"credential"`
	Operation  string `json:"operation"`
	Count      int64  `json:"count"`
	Units      int64  `json:"units"` // what they cost
	Granted    bool   `json:"granted"`
	Outage     bool   `json:"outage,omitempty"` // granted without the ledger, which cannot be reached

	Reason       string     `json:"reason,omitempty"` // limit_exceeded or cost_exceeds_limit
	Limit        string     `json:"limit,omitempty"`  // that stands in the way the longest
	RetryAfterMs int64      `json:"retry_after_ms,omitempty"`
	RetryAt      *time.Time `json:"retry_at,omitempty"` // when they fit if nothing else happens

	FitsCount     int64      `json:"fits_count"`     // how many such calls would be granted now
	ReserveAllows bool       `json:"reserve_allows"` // an operator may take them from the reserve now
	Limits        []Limit    `json:"limits"`         // those that the calls count against
	Obstacles     []Obstacle `json:"obstacles"`      // the limits in the way; none of a grant
}

// Obstacle is a limit that calls do not fit now.
type Obstacle struct {
	Limit string `json:"limit"`
	Cost  int64  `json:"cost"` // of the calls, in this limit
	// Missing is by how many units the calls do not fit; 0 where the limit only
	// counts as spent until the log fills its longer window.
	Missing int64 `json:"missing"`
	// Held is what the limit's window holds, before adjustments gave some of it back.
	Held int64 `json:"held"`
	// Who holds what is in the limit's window, the greatest first, at most ten.
	Jobs       []Holder `json:"jobs"`
	Regions    []Holder `json:"regions"`
	Operations []Holder `json:"operations"`
	GivenBack  int64    `json:"given_back,omitempty"` // by adjustments
}

// Holder is a job, region or operation that holds units of a limit. What was
// spent outside a pass, or booked by an adjustment, has an empty name.
type Holder struct {
	Name  string `json:"name"`
	Units int64  `json:"units"`
}

const mostHolders = 10

// whyRequest is what GET /v1/credentials/{name}/why takes.
type whyRequest struct {
	Operation string `json:"operation"`
	Count     int64  `json:"count"`
}

func (s *Server) why(ctx context.Context, c *Call, in whyRequest) (Why, error) {
	r := quota.Request{Credential: c.Path("name"), Operation: in.Operation, Count: quota.Units(in.Count)}
	e, err := s.keeper.Why(ctx, r)
	if err != nil {
		return Why{}, err
	}
	switch e.Reason {
	case "", quota.LimitExceeded, quota.CostExceedsLimit:
		return whyOf(r, e), nil
	default: // nothing that could be explained
		return Why{}, refusalOf(e.Decision)
	}
}

func whyOf(r quota.Request, e quota.Explanation) Why {
	w := Why{
		Credential: r.Credential, Operation: r.Operation, Count: int64(r.Count), Units: int64(e.Units),
		Granted: e.Granted(), Outage: e.Outage, Reason: string(e.Reason), Limit: e.Limit,
		RetryAfterMs: e.RetryAfter.Milliseconds(), RetryAt: timeOf(e.RetryAt),
		FitsCount: int64(e.Fits), ReserveAllows: e.ReserveAllows,
		Limits: limitsOf(e.Limits), Obstacles: make([]Obstacle, len(e.Obstacles)),
	}
	for i, o := range e.Obstacles {
		w.Obstacles[i] = Obstacle{
			Limit: o.Name, Cost: int64(o.Cost), Missing: int64(o.Missing), Held: int64(o.Used + o.GivenBack), GivenBack: int64(o.GivenBack),
			Jobs: holdersOf(o.Jobs), Regions: holdersOf(o.Regions), Operations: holdersOf(o.Operations),
		}
	}
	return w
}

func holdersOf(list []quota.Holder) []Holder {
	holders := make([]Holder, min(len(list), mostHolders))
	for i := range holders {
		holders[i] = Holder{Name: list[i].Name, Units: int64(list[i].Units)}
	}
	return holders
}
