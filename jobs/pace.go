package jobs

import (
	"sync"
	"time"

	"quotad/regions"
)

// A pacing is what a run knows of limits that come back soon.
type pacing struct {
	mu    sync.Mutex // guards what follows
	now   Pace       // what the run waits for last
	again []regions.Region
	times map[regions.Region]int // how often a region comes again
}

// mostAgain is how often a region comes again in a run after a limit has stopped it.
const mostAgain = 3

// takeAgain returns a region that comes again.
func (p *pacing) takeAgain() (region regions.Region, found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.again) == 0 {
		return "", false
	}
	region, p.again = p.again[0], p.again[1:]
	return region, true
}

// putBack has a region come before all others.
func (p *pacing) putBack(region regions.Region) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again = append([]regions.Region{region}, p.again...)
}

func (p *pacing) isAgain() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.again) > 0
}

// left is how long the run waits still.
func (p *pacing) left(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now.Until.Sub(now)
}

// waits returns what the run waits for, nil if for nothing.
func (p *pacing) waits(now time.Time) *Pace {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.now.Until.After(now) {
		return nil
	}
	pace := p.now
	return &pace
}

// waitPace waits until all limits have come back that the run knows to come back soon.
func (e *executor) waitPace() bool {
	for {
		left := e.pace.left(e.runner.now())
		if left <= 0 {
			return e.launching.Err() == nil
		}
		if !sleep(e.launching, left) {
			return false
		}
	}
}

// waitFor has the run wait for a limit, if the job waits so long.
func (e *executor) waitFor(limit string, until time.Time) bool {
	const shortest = 10 * time.Millisecond // the clocks of host and ledger may differ
	now := e.runner.now()
	if !e.job.WaitsFor(until, now) {
		return false
	}
	e.pace.mu.Lock()
	defer e.pace.mu.Unlock()
	if until = latest(until, now.Add(shortest)); until.After(e.pace.now.Until) {
		e.pace.now = Pace{Limit: limit, Until: until}
	}
	return true
}

// comesAgain tells whether the region of a pass that a limit has stopped comes again in this
// run: when the limit comes back soon, and the pass had nothing from it, or left a bookmark.
func (e *executor) comesAgain(p *Pass, spent Record, mark string) bool {
	left := e.state.bookmark(p.Region)
	limit := spent.Limit
	if spent.Closed != "" && !spent.Denied {
		limit = spent.Closed
	}
	if spent.Past != "" || limit == "" || spent.RetryAt.IsZero() || spent.Calls > 0 && (left == "" || left == mark) {
		return false
	}
	e.pace.mu.Lock()
	times := e.pace.times[p.Region]
	e.pace.mu.Unlock()
	until := spent.RetryAt
	if times > 0 && !spent.WholeAt.IsZero() && e.job.WaitsFor(spent.WholeAt, e.runner.now()) {
		until = spent.WholeAt // call by call it comes back too slowly
	}
	if times == mostAgain || !e.waitFor(limit, until) {
		return false
	}
	e.pace.mu.Lock()
	defer e.pace.mu.Unlock()
	if e.pace.times == nil {
		e.pace.times = map[regions.Region]int{}
	}
	e.pace.times[p.Region]++
	e.pace.again = append(e.pace.again, p.Region)
	return true
}
