package server

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"os"
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
	saveDelay   = 5 * time.Second  // after a refusal, at most, until the file has it
	maxMadeUp   = 64               // bytes of a name that a caller made up: no name has more
	fileVersion = 1
)

// refusals are the acquires that were refused in the last day. Those of one caller, for one
// operation and one reason, are counted together for a quarter of an hour. A file keeps them; no
// caller waits for it.
type refusals struct {
	since time.Time
	file  string // empty: there is none

	mu     sync.Mutex // guards what follows
	kinds  map[refusalKind]*api.Refusal
	saving bool       // the file will be written soon
	saves  sync.Mutex // held while it is written
}

// A refusalKind is what the refusals that are counted together have in common.
type refusalKind struct {
	credential, operation, by, region, reason, limit string
	begins                                           int64 // of the span, in s
}

// newRefusals reads the file: nothing if there is none, or if it is damaged.
func newRefusals(file string, now time.Time) *refusals {
	r := &refusals{since: now, file: file, kinds: make(map[refusalKind]*api.Refusal)}
	var kept api.Refusals
	if text, err := os.ReadFile(file); err != nil || json.Unmarshal(text, &kept) != nil || kept.Version != fileVersion {
		return r
	}
	r.since = kept.Since
	for _, one := range kept.Refusals[:min(len(kept.Refusals), maxRefusals)] {
		r.kinds[kindOfRefusal(one, one.Since)] = &one
	}
	return r
}

func kindOfRefusal(one api.Refusal, at time.Time) refusalKind {
	return refusalKind{one.Credential, one.Operation, one.By, one.Region, one.Reason, one.Limit, at.Truncate(refusalSpan).Unix()}
}

// record adds an event at now if it is a refused acquire whose caller has not gone away.
func (r *refusals) record(e Event, now time.Time) {
	result := e.Result()
	if e.Verb != "acquire" || result == Granted || result == Replayed || result == string(api.Cancelled) {
		return
	}
	request, d := e.Request, e.Decision
	if e.Err != nil {
		d = quota.Decision{Detail: api.ProblemFrom(e.Err).Detail}
	}
	one := api.Refusal{
		At: now.UTC(), Since: now.UTC(), Times: 1,
		Credential: short(request.Credential), Operation: short(request.Operation), Count: int64(request.Count), By: request.Caller.By(), Region: request.Caller.Region,
		Units: int64(d.Units), Reason: result, Limit: d.Limit, Detail: d.Detail, RetryAt: timeOf(d.RetryAt),
	}
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
	if r.file != "" && !r.saving {
		r.saving = true
		time.AfterFunc(saveDelay, func() { r.save(time.Now()) })
	}
}

func short(name string) string { return name[:min(len(name), maxMadeUp)] }

// save writes the file. If it cannot be written, the next refusal tries again.
func (r *refusals) save(now time.Time) {
	if r.file == "" {
		return
	}
	r.saves.Lock()
	defer r.saves.Unlock()
	r.mu.Lock()
	r.saving = false
	r.mu.Unlock()
	text, err := json.Marshal(api.Refusals{Version: fileVersion, Since: r.since, Refusals: r.list(now)})
	if err == nil && os.WriteFile(r.file+".next", text, 0o600) == nil {
		os.Rename(r.file+".next", r.file)
	}
}

// list returns the kinds of the last day, the latest first.
func (r *refusals) list(now time.Time) []api.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
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

// Report records an event before its request is answered. What a proxy decides for a pass it
// reports here, too.
func (s *Server) Report(e Event) {
	s.refusals.record(e, time.Now())
	s.OnEvent(e)
}

func (s *Server) listRefusals(context.Context, *Session, None) (api.Refusals, error) {
	now := time.Now()
	since := s.refusals.since
	if day := now.Add(-refusalTime); since.Before(day) {
		since = day
	}
	return api.Refusals{Since: since.UTC(), Refusals: s.refusals.list(now)}, nil
}
