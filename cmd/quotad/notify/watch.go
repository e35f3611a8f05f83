package notify

import (
	"fmt"
	"sync"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/server"
)

// A Watch finds what happens as planned, and is an event all the same: little is left of a limit, a run starts or ends.
// Any number of goroutines may use it at the same time.
type Watch struct {
	emit  func(event any)
	below func() map[string]quota.Units // what is little, by "credential limit"
	now   func() time.Time

	mu  sync.Mutex           // guards low
	low map[string]time.Time // until when a limit is not reported again; zero: it has been seen
}

// NewWatch returns a watch that emits an Event for each that it finds, by a clock.
func NewWatch(emit func(event any), below func() map[string]quota.Units, now func() time.Time) *Watch {
	return &Watch{emit: emit, below: below, now: now, low: map[string]time.Time{}}
}

// Record handles an event.
func (w *Watch) Record(event any) {
	switch event := event.(type) {
	case server.Decided:
		if event.Err == nil {
			for _, limit := range event.Decision.Limits {
				w.left(event.Request.Credential, limit)
			}
		}
	case jobs.GateRefused:
		for _, limit := range event.Decision.Limits {
			w.left(event.Credential, limit)
		}
	case jobs.RunChanged:
		w.emit(ofRun(event, w.now()))
	}
}

// leastPause is the minimum time between two events of one limit: the units of a short window come back all the time.
const leastPause = time.Hour

// left reports a limit of which little is left, once in a window.
func (w *Watch) left(credential string, limit quota.LimitState) {
	name, left, now := credential+" "+limit.Name, limit.Remaining(), w.now()
	below := w.below()[name]
	if below == 0 {
		return
	}
	w.mu.Lock()
	until, seen := w.low[name]
	news := left < below && !now.Before(until)
	if _, end := limit.Window.Bounds(now); news {
		w.low[name] = now.Add(max(limit.Window.Length, leastPause))
		if end.After(w.low[name]) {
			w.low[name] = end
		}
	} else if !seen {
		w.low[name] = time.Time{}
	}
	w.mu.Unlock()
	if news {
		e := lowOf(credential, limit)
		e.At, e.Again = now, !seen && left+limit.Cost < below
		w.emit(e)
	}
}

func lowOf(credential string, limit quota.LimitState) Event {
	left, budget := limit.Remaining(), limit.Budget(false)
	return Event{Event: config.EventLow, Credential: credential, Limit: limit.Name, Budget: budget, Left: &left, Do: "quotactl usage " + credential,
		Says: fmt.Sprintf("%s %s has %s of %s units left", credential, limit.Name, quota.Thousands(left), quota.Thousands(budget))}
}
