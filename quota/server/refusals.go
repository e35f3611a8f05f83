package server

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// mostRefusals is how many kinds of refusals are remembered, the latest.
const mostRefusals = 100

// Refusals are the acquires that were refused since the server was made. Those of one
// caller, for one operation and one reason, are counted as one kind. They are kept in
// memory alone.
type refusals struct {
	since time.Time

	mu    sync.Mutex // guards kinds
	kinds map[refusalKind]*api.Refusal
}

// A refusalKind is what refusals have in common that are told as one.
type refusalKind struct{ credential, operation, by, region, reason, limit string }

func newRefusals(now time.Time) *refusals {
	return &refusals{since: now, kinds: make(map[refusalKind]*api.Refusal)}
}

// note remembers an event at now if it is a refused acquire; one whose caller went away is
// not.
func (r *refusals) note(e Event, now time.Time) {
	result := e.Result()
	if e.Verb != "acquire" || result == Granted || result == Replayed || result == string(api.Cancelled) {
		return
	}
	request, d := e.Request, e.Decision
	if e.Err != nil {
		d = quota.Decision{Detail: api.ProblemFrom(e.Err).Detail}
	}
	k := refusalKind{short(request.Credential), short(request.Operation), request.Caller.By(), request.Caller.Region, result, d.Limit}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.kinds[k]
	if known == nil {
		r.forgetOldest()
		known = &api.Refusal{Since: now.UTC()}
		r.kinds[k] = known
	}
	*known = api.Refusal{
		At: now.UTC(), Since: known.Since, Times: known.Times + 1,
		Credential: k.credential, Operation: k.operation, Count: int64(request.Count), By: k.by, Region: k.region,
		Units: int64(d.Units), Reason: k.reason, Limit: k.limit, Detail: d.Detail, RetryAt: timeOf(d.RetryAt),
	}
}

// short cuts a name that a caller made up.
func short(name string) string { return name[:min(len(name), maxMadeUp)] }

const maxMadeUp = 64 // bytes: no name has more

// forgetOldest makes room for another kind.
func (r *refusals) forgetOldest() {
	if len(r.kinds) < mostRefusals {
		return
	}
	var oldest refusalKind
	for k, one := range r.kinds {
		if first := r.kinds[oldest]; first == nil || one.At.Before(first.At) {
			oldest = k
		}
	}
	delete(r.kinds, oldest)
}

// list returns the kinds, the latest first.
func (r *refusals) list() []api.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]api.Refusal, 0, len(r.kinds))
	for one := range maps.Values(r.kinds) {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(x, y api.Refusal) int {
		return cmp.Or(y.At.Compare(x.At), cmp.Compare(x.By, y.By), cmp.Compare(x.Region, y.Region), cmp.Compare(x.Operation, y.Operation))
	})
	return list
}

// tell tells of an event before its request is answered.
func (s *Server) tell(e Event) {
	s.refusals.note(e, time.Now())
	s.observe(e)
}

func (s *Server) listRefusals(context.Context, *Session, None) (api.Refusals, error) {
	return api.Refusals{Since: s.refusals.since.UTC(), Refusals: s.refusals.list()}, nil
}
