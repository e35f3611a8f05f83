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

const (
	maxRefusals = 500              // kinds that are kept, the latest
	refusalTime = 24 * time.Hour   // for which they are kept
	refusalSpan = 15 * time.Minute // in which refusals of a kind are counted together
	maxMadeUp   = 64               // bytes of a name that a caller made up: no name has more
)

// Refusals are what was refused in the last day, since the daemon started: acquires, and what others add.
// Those of one caller, for one operation and one reason, are counted together for a quarter of an hour.
type Refusals struct {
	mu    sync.Mutex // guards what follows
	since time.Time
	kinds map[refusalKind]*api.Refusal
}

// A refusalKind is what the refusals that are counted together have in common.
type refusalKind struct {
	credential, operation, by, region, reason, limit string
	begins                                           int64 // of the span, in s
}

// NewRefusals returns a record that is empty, and begins now.
func NewRefusals() *Refusals {
	return &Refusals{since: time.Now(), kinds: make(map[refusalKind]*api.Refusal)}
}

// Record adds an event that is a refused acquire whose caller has not gone away.
func (r *Refusals) Record(event any) {
	e, _ := event.(Decided)
	result := e.Result()
	if e.Verb != "acquire" || result == Granted || result == Replayed || result == string(api.Cancelled) {
		return
	}
	request, d := e.Request, e.Decision
	if e.Err != nil {
		d = quota.Decision{Detail: api.ProblemFrom(e.Err).Detail}
	}
	r.Add(api.Refusal{
		Credential: short(request.Credential), Operation: short(request.Operation), Count: int64(request.Count), By: request.Caller.By(), Region: request.Caller.Region,
		Units: int64(d.Units), Reason: result, Limit: d.Limit, Detail: d.Detail, RetryAt: api.TimeOf(d.RetryAt),
	})
}

// Add adds a refusal that happens now.
func (r *Refusals) Add(one api.Refusal) {
	now := time.Now()
	one.At, one.Since, one.Times = now.UTC(), now.UTC(), 1
	k := refusalKind{one.Credential, one.Operation, one.By, one.Region, one.Reason, one.Limit, now.Truncate(refusalSpan).Unix()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.kinds[k]; known != nil {
		one.Since, one.Times = known.Since, known.Times+1
	} else if len(r.kinds) >= maxRefusals {
		kinds := slices.Collect(maps.Keys(r.kinds))
		delete(r.kinds, slices.MinFunc(kinds, func(x, y refusalKind) int { return r.kinds[x].At.Compare(r.kinds[y].At) }))
	}
	r.kinds[k] = &one
}

func short(name string) string { return name[:min(len(name), maxMadeUp)] }

// listRefusals lists the kinds of the last day, the latest first.
func (s *Server) listRefusals(context.Context, *Session, None) (api.Refusals, error) {
	r, day := s.Refusals, time.Now().Add(-refusalTime)
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.kinds, func(_ refusalKind, one *api.Refusal) bool { return one.At.Before(day) })
	list := make([]api.Refusal, 0, len(r.kinds))
	for _, one := range r.kinds {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(x, y api.Refusal) int {
		return cmp.Or(y.At.Compare(x.At), cmp.Compare(x.By, y.By), cmp.Compare(x.Region, y.Region), cmp.Compare(x.Operation, y.Operation))
	})
	return api.Refusals{Since: quota.Later(r.since, day).UTC(), Refusals: list}, nil
}
