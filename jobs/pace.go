package jobs

import (
	"time"

	"quotad/quota"
)

// maxAgain is how often a run serves a region again after a limit has stopped it.
const maxAgain = 3

// waitFor has the run wait for a limit, if the job waits that long.
func (e *executor) waitFor(limit string, until time.Time) bool {
	const shortest = 10 * time.Millisecond // the clocks of host and ledger may differ
	now := e.runner.now()
	if !e.job.waitsFor(until, now) {
		return false
	}
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	if until = quota.Later(until, now.Add(shortest)); until.After(e.pause.Until) {
		e.pause, e.resumes = Pace{Limit: limit, Until: until}, time.Now().Add(until.Sub(now))
	}
	return true
}

// comesAgain returns whether this run serves the region of a pass again that a limit has stopped, once that has
// returned: three times at most.
func (e *executor) comesAgain(p *Pass, spent passCalls) bool {
	limit := spent.Limit
	if spent.Closed != "" && !spent.Denied {
		limit = spent.Closed
	}
	if spent.Past != "" || limit == "" || spent.RetryAt.IsZero() {
		return false
	}
	e.control.mu.Lock()
	times := e.times[p.Region]
	e.control.mu.Unlock()
	until := spent.RetryAt
	if times > 0 && !spent.WholeAt.IsZero() && e.job.waitsFor(spent.WholeAt, e.runner.now()) {
		until = spent.WholeAt // call by call it returns too slowly
	}
	if times == maxAgain || !e.waitFor(limit, until) {
		return false
	}
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	e.times[p.Region]++
	e.again = append(e.again, p.Region)
	return true
}
