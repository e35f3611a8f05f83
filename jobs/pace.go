package jobs

import (
	"slices"
	"time"

	"quotad/regions"
)

// maxAgain is how often a run serves a region again after a limit has stopped it.
const maxAgain = 3

// putBack has a region be served before all others.
func (e *executor) putBack(region regions.Region) {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	e.pacing.again = slices.Insert(e.pacing.again, 0, region)
}

// servesAgain returns whether a region is to be served again.
func (e *executor) servesAgain() bool {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	return len(e.pacing.again) > 0
}

// pauseLeft is how long the run still waits for a limit.
func (e *executor) pauseLeft() time.Duration {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	return e.pacing.pause.Until.Sub(e.base.now())
}

// waitFor has the run wait for a limit, if the job waits that long.
func (e *executor) waitFor(limit string, until time.Time) bool {
	const shortest = 10 * time.Millisecond // the clocks of host and ledger may differ
	now := e.base.now()
	if !e.job.WaitsFor(until, now) {
		return false
	}
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	if until = latest(until, now.Add(shortest)); until.After(e.pacing.pause.Until) {
		e.pacing.pause = Pace{Limit: limit, Until: until}
	}
	return true
}

// comesAgain returns whether this run serves the region of a pass again that a limit has stopped, once that has
// returned: from the bookmark that the pass left, else from its start. A pass that had something from
// the limit and left no new bookmark, which was mark before, is repeated once.
func (e *executor) comesAgain(p *Pass, spent Record, mark string) bool {
	left := e.control.bookmark(p.Region)
	limit := spent.Limit
	if spent.Closed != "" && !spent.Denied {
		limit = spent.Closed
	}
	if spent.Past != "" || limit == "" || spent.RetryAt.IsZero() {
		return false
	}
	repeats := spent.Calls > 0 && (left == "" || left == mark)
	e.control.mu.Lock()
	times := e.pacing.times[p.Region]
	e.control.mu.Unlock()
	until := spent.RetryAt
	if (times > 0 || repeats) && !spent.WholeAt.IsZero() && e.job.WaitsFor(spent.WholeAt, e.base.now()) {
		until = spent.WholeAt // call by call it returns too slowly
	}
	if times == maxAgain || repeats && times > 0 || !e.waitFor(limit, until) {
		return false
	}
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	e.pacing.times[p.Region]++
	e.pacing.again = append(e.pacing.again, p.Region)
	return true
}
