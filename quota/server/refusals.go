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
	// mostRefusals is how many kinds of refusals are remembered, the latest, and refusalTime for
	// how long.
	mostRefusals = 500
	refusalTime  = 24 * time.Hour
	// refusalSpan is the time in which refusals of a kind are counted together.
	refusalSpan = 15 * time.Minute
	// saveTime is how long after a refusal the file has it, at the latest.
	saveTime = 5 * time.Second
)

// Refusals are the acquires that were refused in the last day. Those of one caller, for one
// operation and one reason, are counted together for a quarter of an hour. They are kept in a
// file, which nobody who is refused waits for.
type refusals struct {
	since time.Time
	file  string // empty: none keeps them

	mu     sync.Mutex // guards what follows
	kinds  map[refusalKind]*api.Refusal
	saving bool       // the file will be written soon
	saves  sync.Mutex // held while it is
}

// A refusalKind is what refusals have in common that are told as one.
type refusalKind struct {
	credential, operation, by, region, reason, limit string
	begins                                           int64 // of the span, in s
}

// newRefusals returns what the file remembers: nothing if there is none, or if it is damaged.
func newRefusals(file string, now time.Time) *refusals {
	r := &refusals{since: now, file: file, kinds: make(map[refusalKind]*api.Refusal)}
	var kept api.Refusals
	if text, err := os.ReadFile(file); err != nil || json.Unmarshal(text, &kept) != nil || kept.Version != refusalVersion {
		return r
	}
	r.since = kept.Since
	for _, one := range kept.Refusals[:min(len(kept.Refusals), mostRefusals)] {
		r.kinds[kindOfRefusal(one, one.Since)] = &one
	}
	return r
}

// refusalVersion is that of the file.
const refusalVersion = 1

func kindOfRefusal(one api.Refusal, at time.Time) refusalKind {
	return refusalKind{one.Credential, one.Operation, one.By, one.Region, one.Reason, one.Limit, at.Truncate(refusalSpan).Unix()}
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
	} else {
		r.forgetOldest()
	}
	r.kinds[k] = &one
	if r.file != "" && !r.saving {
		r.saving = true
		time.AfterFunc(saveTime, func() { r.save(time.Now()) }) // what cannot be written is remembered, and tried again at the next refusal
	}
}

// save writes the file.
func (r *refusals) save(now time.Time) error {
	if r.file == "" {
		return nil
	}
	r.saves.Lock()
	defer r.saves.Unlock()
	r.mu.Lock()
	r.saving = false
	r.mu.Unlock()
	text, err := json.Marshal(api.Refusals{Version: refusalVersion, Since: r.since, Refusals: r.list(now)})
	if err != nil {
		return err
	}
	next := r.file + ".next"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, r.file)
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

// list returns the kinds of the last day, the latest first.
func (r *refusals) list(now time.Time) []api.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.kinds, func(_ refusalKind, one *api.Refusal) bool { return now.Sub(one.At) > refusalTime })
	list := make([]api.Refusal, 0, len(r.kinds))
	for one := range maps.Values(r.kinds) {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(x, y api.Refusal) int {
		return cmp.Or(y.At.Compare(x.At), cmp.Compare(x.By, y.By), cmp.Compare(x.Region, y.Region), cmp.Compare(x.Operation, y.Operation))
	})
	return list
}

// report records an event before its request is answered.
func (s *Server) report(e Event) {
	s.refusals.note(e, time.Now())
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
