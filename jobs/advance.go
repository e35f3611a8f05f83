package jobs

import (
	"context"
	"math"
	"sync"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// loop launches one pass after the other, only if the gate lets it, until the run is through or something stops
// it. It returns when the last pass is over.
func (e *executor) loop() {
	var passes sync.WaitGroup
	for e.launching.Err() == nil {
		p, wait := e.next()
		if wait == through {
			break
		}
		if wait > 0 {
			quota.Await(e.launching, wait, e.wake)
		} else if token, ok := e.admit(p); ok {
			passes.Go(func() {
				e.pass(p, token)
				e.leave()
			})
		} else {
			e.leave()
		}
	}
	passes.Wait()
	e.finish(context.Cause(e.launching))
	e.end(nil)
	e.kill(nil)
	close(e.done)
}

const (
	through   time.Duration = -1            // the run has no further pass
	untilWake time.Duration = math.MaxInt64 // until a pass is over, or was granted what it was refused
)

// next decides which pass is next: of a region that is served again, else of the ring's next one at its time, and
// then of those that failed, as often as the job wants. That it is under way is counted already. If none
// may be launched yet, wait is for how long. A run that waits holds no units.
func (e *executor) next() (p Pass, wait time.Duration) {
	j := e.control
	j.mu.Lock()
	defer j.mu.Unlock()
	all, now := len(e.again)+len(e.rest), time.Now()
	if all == 0 && e.busy == 0 && e.retries > 0 {
		e.retries, e.due, e.stagger, e.rest = e.retries-1, time.Time{}, 0, nil
		for _, failed := range e.run.Failed() {
			e.rest = append(e.rest, failed.Region)
		}
		all = e.delayRetry()
	}
	switch {
	case all == 0 && e.busy == 0:
		return p, through
	case all == 0, e.busy == max(1, e.job.Parallel), e.runner.config.Tokens.isRefused(e.lacking):
		return p, untilWake
	case now.Before(e.resumes):
		return p, e.resumes.Sub(now)
	case len(e.again) == 0 && now.Before(e.due):
		return p, e.due.Sub(now)
	case len(e.again) > 0:
		p.Region, e.again = e.again[0], e.again[1:]
	default:
		p.Region, e.rest, e.due = e.rest[0], e.rest[1:], e.due.Add(e.stagger)
	}
	p.Attempt = e.run.attempts(p.Region)
	e.busy++
	return p, 0
}

// delayRetry has the regions that failed wait for RetryAfter, and returns how many are served again: none if the next slot
// comes before. The caller holds mu.
func (e *executor) delayRetry() int {
	now, after := e.runner.now(), e.job.RetryAfter
	if len(e.rest) > 0 && after > 0 {
		until := now.Add(after)
		if next := e.job.Schedule.Next(now); !next.IsZero() && !until.Before(next) {
			e.retries, e.rest = 0, nil
		} else {
			e.pause, e.resumes = Pace{Until: until}, time.Now().Add(after)
		}
	}
	return len(e.rest)
}

// leave ends a pass that was counted as under way.
func (e *executor) leave() {
	e.control.mu.Lock()
	e.busy--
	e.control.mu.Unlock()
	wake(e.wake)
}

// putBack has a region be served before all others.
func (e *executor) putBack(region regions.Region) {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	e.again = append([]regions.Region{region}, e.again...)
}
