package jobs

import (
	"context"
	"sync"

	"quotad/regions"
)

// start starts the goroutine of a run that has begun.
func (e *executor) start() {
	e.base.config.OnEvent(RunChanged{Run: *e.run.copy()})
	go e.loop()
}

// loop goes through the ring, and then again through the regions that failed, as often
// as the job wants. It returns when the last pass is over.
func (e *executor) loop() {
	var holding sync.WaitGroup
	held, letGo := context.WithCancel(context.Background())
	if e.control.share != nil {
		holding.Go(func() { e.hold(held) })
	}
	e.round(e.run.Ring, true)
	for again := 0; again < e.job.Retry && e.launching.Err() == nil; again++ {
		e.round(e.failed(), false)
	}
	letGo()
	holding.Wait()
	e.finish(context.Cause(e.launching))
	e.end(nil)
	e.kill(nil)
	close(e.done)
}

// round launches a pass at each region of a list, only if the gate lets it: each at its
// time in the first round, one after the other in later ones. Regions that the run paused for
// are served in between.
func (e *executor) round(list []regions.Region, timed bool) {
	var passes sync.WaitGroup
	defer passes.Wait()
	for i := 0; ; {
		if i == len(list) && !e.servesAgain() {
			if passes.Wait(); !e.servesAgain() {
				return
			}
		}
		if timed && i < len(list) && !sleep(e.launching, regions.Start(e.run.Slot, e.stagger, i).Sub(e.base.now())) || !e.ready() {
			return
		}
		p, again := e.next(list[i:])
		if !again {
			i++
		}
		token, ok := e.admit(p)
		if !ok {
			e.leave()
			continue
		}
		passes.Go(func() {
			defer e.leave()
			e.pass(p, token)
		})
	}
}

// next returns the next pass: of a region that is served again, or else of the list's first one.
func (e *executor) next(list []regions.Region) (p Pass, again bool) {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	if again = len(e.pacing.again) > 0; again {
		list, e.pacing.again = e.pacing.again, e.pacing.again[1:]
	}
	p.Region = list[0]
	p.Attempt = e.run.attempts(p.Region)
	return p, again
}

// failed returns the regions that failed, also when they were tried again.
func (e *executor) failed() (list []regions.Region) {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	for _, p := range e.run.Failed() {
		list = append(list, p.Region)
	}
	return list
}

// ready waits until the run pauses for no limit and none of its passes lacks what it was refused, and
// then for a place among its passes. It returns whether the run may launch. A run that waits holds
// no units.
func (e *executor) ready() bool {
	for e.isFree() && sleep(e.launching, e.pauseLeft()) {
		if !occupy(e.launching, e.places) {
			return false
		}
		if e.pauseLeft() <= 0 && !e.base.config.Tokens.isRefused(e.budget) && e.mayLaunch() {
			return true
		}
		e.leave() // a pass that was over meanwhile has met a limit
	}
	return false
}

// isFree waits until no pass of the run lacks what it was refused: one that waits until it fits, as
// clients do that obey Retry-After, may be granted it. It returns whether the run may launch.
func (e *executor) isFree() bool {
	for e.base.config.Tokens.isRefused(e.budget) {
		select {
		case <-e.budget.free:
		case <-e.launching.Done():
			return false
		}
	}
	return true
}

func (e *executor) leave() {
	<-e.places
}
