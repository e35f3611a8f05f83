package notify

import (
	"slices"
	"sync"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/server"
)

// Occurrences finds what happens as planned, and is an event all the same: a limit comes near or denies, a run
// ends. Of each limit it emits one alert of a kind in a window, or in an hour if that is longer, and only if the
// use was lower meanwhile. A restart clears its memory.
// Any number of goroutines may use it at the same time.
type Occurrences struct {
	emit func(event any)
	now  func() time.Time

	mu     sync.Mutex // guards levels; nothing is emitted under it
	levels map[limitName]*level
}

type limitName struct{ credential, limit string }

// A level has an edge for each of the Thresholds, and one for denials.
type level [len(Thresholds) + 1]edge

const denials = len(Thresholds)

// Thresholds are the percentages of what jobs may spend of a limit at which it is near.
var Thresholds = [...]quota.Units{80, 95}

// leastPause is the minimum time between two alerts of one limit: units of a short window come back and are spent all the
// time.
const leastPause = time.Hour

// An edge is reported once while it lasts.
type edge struct {
	reported bool
	again    time.Time // not before
}

// rise records whether something is so, and reports whether that is to be reported.
func (e *edge) rise(is bool, w quota.Window, now time.Time) bool {
	if !is {
		e.reported = false
	}
	if !is || e.reported || now.Before(e.again) {
		return false
	}
	e.reported, e.again = true, now.Add(max(w.Length, leastPause))
	if _, end := w.Bounds(now); end.After(e.again) {
		e.again = end
	}
	return true
}

// NewOccurrences returns what emits alerts, by a clock.
func NewOccurrences(emit func(event any), now func() time.Time) *Occurrences {
	return &Occurrences{emit: emit, now: now, levels: map[limitName]*level{}}
}

// Record handles an event.
func (o *Occurrences) Record(event any) {
	switch event := event.(type) {
	case server.Decided:
		o.decided(event)
	case jobs.GateRefused:
		if event.Decision.Reason == quota.LimitExceeded {
			o.exhausted(event.Credential, event.Decision, event.Decision.Limit)
		}
	case jobs.RunChanged:
		if run := event.Run; run.State == jobs.RunRunning {
			o.emit(Alert{Event: config.RunStarted, At: o.now(), Run: run})
		} else {
			o.emit(Alert{Event: config.RunEnded, At: o.now(), Run: run, Next: event.Next, RetryAt: run.RetryAt, Detail: run.Detail})
		}
	}
}

// decided finds limits that are near, or deny.
func (o *Occurrences) decided(event server.Decided) {
	credential, d := event.Request.Credential, event.Decision
	switch {
	case event.Err != nil:
	case d.Reason == quota.LimitExceeded:
		o.exhausted(credential, d, d.Limit)
	case d.Granted():
		o.used(credential, d.Limits, event.Verb == "acquire" && !d.Replayed)
		for _, short := range d.WouldDeny(event.Request.UseReserve) {
			o.exhausted(credential, d, short.Limit)
		}
	}
}

// used emits an alert for each threshold that the use of a limit crosses. Debited means that the decision debited the
// limits.
func (o *Occurrences) used(credential string, limits []quota.LimitState, debited bool) {
	for _, limit := range limits {
		before := limit.Used
		if debited {
			before -= limit.Cost
		}
		budget, now := limit.Budget(false), o.now()
		var crossed []quota.Units
		o.mu.Lock()
		level := o.level(credential, limit.Name)
		for i, percent := range Thresholds {
			e := &level[i]
			if before*100 < percent*budget {
				e.reported = false
			} else if e.again.IsZero() { // so it was when quotad started
				e.reported = true
			}
			if e.rise(limit.Used*100 >= percent*budget, limit.Window, now) {
				crossed = append(crossed, percent)
			}
		}
		if limit.Cost > 0 && !limit.DryRun {
			level[denials].reported = false // it grants again
		}
		o.mu.Unlock()
		for _, percent := range crossed {
			o.emit(Alert{Event: config.NearLimit, At: now, Credential: credential, Limit: limit, Percent: percent})
		}
	}
}

// exhausted handles a limit that denied a call, kept a pass from beginning, or would have denied if it were enforced.
func (o *Occurrences) exhausted(credential string, d quota.Decision, name string) {
	i := slices.IndexFunc(d.Limits, func(l quota.LimitState) bool { return l.Name == name })
	if i < 0 {
		return
	}
	limit, now := d.Limits[i], o.now()
	o.mu.Lock()
	news := o.level(credential, name)[denials].rise(true, limit.Window, now)
	o.mu.Unlock()
	if news {
		o.emit(Alert{Event: config.Exhausted, At: now, Credential: credential, Limit: limit, RetryAt: d.RetryAt})
	}
}

// level returns the level of a limit. The caller holds mu.
func (o *Occurrences) level(credential, limit string) *level {
	name := limitName{credential, limit}
	if o.levels[name] == nil {
		o.levels[name] = &level{}
	}
	return o.levels[name]
}
