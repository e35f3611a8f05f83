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

func kindOfRefusal(one api.Refusal, at time.Time) refusalKind {
	return refusalKind{one.Credential, one.Operation, one.By, one.Region, one.Reason, one.Limit, at.Truncate(refusalSpan).Unix()}
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
	k := kindOfRefusal(one, now)
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

// list returns the kinds of the last day, the latest first. The caller holds mu.
func (r *Refusals) list(now time.Time) []api.Refusal {
	maps.DeleteFunc(r.kinds, func(_ refusalKind, one *api.Refusal) bool { return now.Sub(one.At) > refusalTime })
	list := make([]api.Refusal, 0, len(r.kinds))
	for _, one := range r.kinds {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(x, y api.Refusal) int {
		return cmp.Or(y.At.Compare(x.At), cmp.Compare(x.By, y.By), cmp.Compare(x.Region, y.Region), cmp.Compare(x.Operation, y.Operation))
	})
	return list
}

func (s *Server) listRefusals(context.Context, *Session, None) (api.Refusals, error) {
	now, r := time.Now(), s.Refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	since := r.since
	if day := now.Add(-refusalTime); since.Before(day) {
		since = day
	}
	return api.Refusals{Since: since.UTC(), Refusals: r.list(now)}, nil
}
