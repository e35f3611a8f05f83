package api

import (
	"context"
	"slices"
	"time"

	"quotad/quota"
)

// Usage is the body of GET /v1/credentials/{name}/usage: who spent what of a
// stretch of the log. Without a since it tells what the limits hold now: each counts
// what lies in its own window, and the totals by limit are what the status shows as
// used. With one, what has left a window since is told too.
type Usage struct {
	Credential string    `json:"credential"`
	By         string    `json:"by"`
	Since      time.Time `json:"since"`
	Until      time.Time `json:"until"` // now, by the ledger's clock
	// Windows tells, where no since was given, when the window of each limit began;
	// Since is the earliest of them.
	Windows map[string]time.Time `json:"windows,omitempty"`
	Shares  []Share              `json:"shares"` // the greatest first; hours in their order
	Total   Share                `json:"total"`
	Partial bool                 `json:"partial,omitempty"` // the oldest entries were left out, beyond the most that were to be read
}

// Share is what one job, region, operation, caller or hour spent, after settling.
type Share struct {
	// Name is empty of what has none: spent outside a pass, or, by operation,
	// booked by an adjustment. An hour's is when it began, in RFC 3339.
	Name   string           `json:"name"`
	Calls  int64            `json:"calls"`  // upstream, less those of released grants
	Units  int64            `json:"units"`  // of each entry the greatest of its charges
	Limits map[string]int64 `json:"limits"` // units by limit
}

// usageRequest is what GET /v1/credentials/{name}/usage takes.
type usageRequest struct {
	By    string `json:"by"`
	Since since  `json:"since"`
	Most  *int64 `json:"most"` // nil: all
}

func (q usageRequest) query() (quota.BreakdownQuery, error) {
	b := quota.BreakdownQuery{By: quota.Dimension(q.By)}
	if !slices.Contains(quota.Dimensions(), b.By) {
		return b, NewProblem(quota.BadRequest, "by must be one of %v: %.40q", quota.Dimensions(), q.By)
	}
	if q.Most == nil {
		return b, nil
	}
	if b.Most = int(*q.Most); b.Most < 1 {
		return b, NewProblem(quota.BadRequest, "most must be at least 1: %d", b.Most)
	}
	return b, nil
}

func (s *Server) usage(ctx context.Context, c *Call, in usageRequest) (Usage, error) {
	name := c.Path("name")
	q, err := in.query()
	if err != nil {
		return Usage{}, err
	}
	state, err := s.usageOf(ctx, name)
	if err != nil {
		return Usage{}, err
	}
	answer := Usage{Credential: name, By: in.By, Since: in.Since.instant(state.Now).UTC(), Until: state.Now.UTC()}
	q.Since = answer.Since
	if in.Since.isZero() {
		q.Now = state.Now
		answer.Since, answer.Windows = windowsAt(state)
	}
	b, known, err := s.keeper.Breakdown(ctx, name, q)
	if !known {
		return Usage{}, s.unknownCredential(name)
	}
	if err != nil {
		return Usage{}, err
	}
	shares := b.Shares()
	answer.Shares = make([]Share, len(shares))
	for i, share := range shares {
		answer.Shares[i] = shareOf(share, b.Credential.Limits)
	}
	answer.Partial = b.Partial
	answer.Total = shareOf(b.Total, b.Credential.Limits)
	return answer, nil
}

// windowsAt returns when the window of each limit began, and the earliest of that.
func windowsAt(state quota.Usage) (earliest time.Time, began map[string]time.Time) {
	earliest, began = state.Now.UTC(), make(map[string]time.Time, len(state.Limits))
	for _, limit := range state.Limits {
		begin, end := limit.Window.Bounds(state.Now)
		if !end.IsZero() {
			begin = begin.Add(time.Millisecond) // a period is told by its first instant
		}
		began[limit.Name] = begin.UTC()
		if begin.Before(earliest) {
			earliest = begin.UTC()
		}
	}
	return earliest, began
}

func shareOf(s quota.Share, limits []quota.Limit) Share {
	share := Share{Name: s.Name, Calls: int64(s.Calls), Units: int64(s.Units), Limits: make(map[string]int64, len(s.In))}
	for i, units := range s.In {
		share.Limits[limits[i].Name] = int64(units)
	}
	return share
}
