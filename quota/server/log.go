package server

import (
	"context"
	"slices"
	"strconv"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

const usualPage = 100

func (s *Server) log(ctx context.Context, c *Session, in api.LogQuery) (answer api.LogPage, err error) {
	if in.Most < 1 || in.Most > quota.MaxLogPage {
		return answer, api.NewProblem(quota.BadRequest, "most must be from 1 to %d: %d", quota.MaxLogPage, in.Most)
	}
	name := c.Path("name")
	q, err := s.logQuery(ctx, name, in)
	if err != nil {
		return answer, err
	}
	page, err := s.Service.Log(ctx, name, q)
	if err != nil {
		return answer, err
	}
	answer.Entries = each(page.Entries, func(e quota.Entry) api.Entry { return entryOf(name, e) })
	if !page.Next.IsZero() {
		answer.Next = strconv.FormatInt(page.Next.UnixMicro(), 10)
	}
	return answer, nil
}

func (s *Server) logQuery(ctx context.Context, name string, in api.LogQuery) (quota.LogQuery, error) {
	q := quota.LogQuery{Newest: in.Newest, Max: in.Most}
	if in.After != "" {
		us, err := strconv.ParseInt(in.After, 10, 64)
		if err != nil || us < 1 {
			return q, api.NewProblem(quota.BadRequest, "after must be the next of a page of this log: %.80q", in.After)
		}
		q.After = time.UnixMicro(us).UTC()
	}
	if in.Since == "" {
		return q, nil
	}
	usage, err := s.Service.Usage(ctx, name)
	q.Since = in.Since.At(usage.Now)
	return q, err
}

func entryOf(name string, e quota.Entry) api.Entry {
	entry := api.Entry{
		ID: quota.GrantID(name, e.ID), At: e.At, Kind: string(e.Kind()), Outage: e.Outage, WouldDeny: e.Would,
		By: e.By, Region: e.Region, Note: e.Note, Charges: make([]api.Charge, len(e.Charges)),
	}
	for i, counts := range e.Charges {
		was, _ := quota.ChargeIn(e.Asked(), counts.Limit)
		entry.Charges[i] = api.Charge{Limit: counts.Limit, Units: int64(counts.Units), Debited: int64(was)}
		entry.Units = max(entry.Units, int64(counts.Units))
	}
	if to, settled := e.Settled(); settled {
		entry.SettledTo = new(int64(to))
	}
	switch b := e.Body.(type) {
	case quota.Grant:
		entry.Operation, entry.Count = b.Operation, int64(b.Count)
	case quota.Settled:
		entry.GrantID, entry.SettledTo = quota.GrantID(name, b.Grant), new(int64(b.To))
	case quota.Changed:
		entry.Limit, entry.Until = b.Limit, api.TimeOf(b.Until)
	}
	return entry
}

func (s *Server) usage(ctx context.Context, c *Session, in api.UsageQuery) (api.Usage, error) {
	name, q := c.Path("name"), quota.BreakdownQuery{By: quota.Dimension(in.By), Max: in.Most}
	switch {
	case !slices.Contains(quota.Dimensions(), q.By):
		return api.Usage{}, api.NewProblem(quota.BadRequest, "by must be one of %v: %.40q", quota.Dimensions(), in.By)
	case in.Most < 1:
		return api.Usage{}, api.NewProblem(quota.BadRequest, "most must be at least 1: %d", in.Most)
	}
	state, err := s.Service.Usage(ctx, name)
	if err != nil {
		return api.Usage{}, err
	}
	answer := api.Usage{Credential: name, By: in.By, Since: in.Since.At(state.Now).UTC(), Until: state.Now.UTC()}
	q.Since = answer.Since
	if in.Since == "" {
		q.Now = state.Now
		answer.Since, answer.Windows = windowsAt(state)
	}
	b, err := s.Service.Breakdown(ctx, name, q)
	if err != nil {
		return api.Usage{}, err
	}
	shareOf := func(s quota.SpentBy) api.SpentBy {
		share := api.SpentBy{Name: s.Name, Calls: int64(s.Calls), Units: int64(s.Units), Limits: make(map[string]int64, len(s.In))}
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
			begin = begin.Add(time.Microsecond) // the first instant of the period
		}
		began[limit.Name] = begin.UTC()
		if begin.Before(earliest) {
			earliest = begin.UTC()
		}
	}
	return earliest, began
}

const maxHolders = 10

func (s *Server) why(ctx context.Context, c *Session, in api.WhyQuery) (api.Why, error) {
	r := quota.Request{Credential: c.Path("name"), Operation: in.Operation, Count: quota.Units(in.Count), Caller: quota.Caller{Job: in.Job, UID: -1}}
	e, err := s.Service.Why(ctx, r)
	if err != nil {
		return api.Why{}, err
	}
	switch e.Reason {
	case "", quota.LimitExceeded, quota.LimitClosed, quota.CostExceedsLimit:
	default: // there is nothing to explain
		return api.Why{}, api.ProblemOf(e.Decision)
	}
	return api.Why{
		Credential: r.Credential, Operation: r.Operation, Count: int64(r.Count), Job: r.Caller.Job, Units: int64(e.Units),
		Granted: e.Granted(), Outage: e.Outage, Reason: string(e.Reason), Limit: e.Limit, Detail: e.Detail,
		RetryAfterMs: e.RetryAfter.Milliseconds(), RetryAt: api.TimeOf(e.RetryAt),
		WouldDeny: e.WouldDeny,
		FitsCount: int64(e.Fits), ReserveAllows: e.ReserveAllows,
		Limits:    each(e.Limits, api.LimitOf),
		Obstacles: each(e.Obstacles, func(o quota.Obstacle) api.Obstacle { return s.obstacle(r.Credential, o, e.Limits) }),
	}, nil
}

func (s *Server) obstacle(credential string, o quota.Obstacle, counting []quota.LimitState) api.Obstacle {
	to, sure := s.raisable(credential, o, counting)
	return api.Obstacle{
		Limit: o.Name, Cost: int64(o.Cost), Missing: int64(o.Missing), Held: int64(o.Used),
		RaiseTo: int64(to), Sure: sure,
		Jobs: holdersOf(o.Jobs), Regions: holdersOf(o.Regions), Operations: holdersOf(o.Operations),
	}
}

func holdersOf(list []quota.Holder) []quota.Holder {
	return append([]quota.Holder{}, list[:min(len(list), maxHolders)]...) // in JSON, none is no null
}
