package server

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

const usualPage = 100

func (s *Server) log(ctx context.Context, c *Session, in api.LogQuery) (answer api.LogPage, err error) {
	if in.Denied {
		answer.Entries = s.Denials.latest(in.Credential)
		return answer, nil
	}
	if in.Most < 1 || in.Most > quota.MaxLogPage {
		return answer, api.NewProblem(quota.BadRequest, "most must be from 1 to %d: %d", quota.MaxLogPage, in.Most)
	}
	name, err := s.named(c, in.Credential)
	if err != nil {
		return answer, err
	}
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
	q := quota.LogQuery{Newest: in.Newest, Max: int(in.Most)}
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
	if err != nil {
		return q, err
	}
	if q.Since, err = api.ParseInstant(in.Since, usage.Now, true); err != nil {
		return q, api.NewProblem(quota.BadRequest, "since: %v", err)
	}
	return q, nil
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

const (
	maxDenials = 200
	maxMadeUp  = 64 // bytes of a name that a caller made up: no name has more
)

// Denials are the last acquires that were refused, for whatever reason, since the daemon started. The zero value is
// ready to use.
type Denials struct {
	mu   sync.Mutex // guards what follows
	last []api.Entry
}

// Record adds an event that is a refused acquire whose caller has not gone away.
func (r *Denials) Record(event any) {
	e, _ := event.(Decided)
	result := e.Result()
	if e.Verb != "acquire" || result == Granted || result == Replayed || result == string(api.Cancelled) {
		return
	}
	request, d := e.Request, e.Decision
	if e.Err != nil {
		d = quota.Decision{Detail: api.ProblemFrom(e.Err).Detail}
	}
	short := func(name string) string { return name[:min(len(name), maxMadeUp)] }
	one := api.Entry{
		At: time.Now().UTC(), Kind: api.Denied, Credential: short(request.Credential), Operation: short(request.Operation),
		Count: int64(request.Count), By: request.Caller.By(), Region: request.Caller.Region, Units: int64(d.Units),
		Charges: []api.Charge{}, Reason: result, Limit: d.Limit, Note: d.Detail, Until: api.TimeOf(d.RetryAt),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = append(r.last[max(0, len(r.last)+1-maxDenials):], one)
}

// latest returns those of a credential, or of all of them, the latest last.
func (r *Denials) latest(credential string) []api.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(append([]api.Entry{}, r.last...), func(e api.Entry) bool {
		return credential != "" && e.Credential != credential
	})
}
