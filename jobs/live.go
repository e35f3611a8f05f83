package jobs

import "quotad/regions"

// A livePass is a pass under way on this host.
type livePass struct {
	token string
	tail  tail
}

type passName struct {
	region  regions.Region
	attempt int
}

func nameOf(p Pass) passName { return passName{p.Region, p.Attempt} }

// goLive notes that a pass is under way, or with nil that it is not any more.
func (e *executor) goLive(p Pass, live *livePass) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	name := nameOf(p)
	if live == nil {
		delete(e.live, name)
		return
	}
	if e.live == nil {
		e.live = map[passName]*livePass{}
	}
	e.live[name] = live
}

// show completes a copy of the executor's run by what its passes under way have done
// until now. The caller holds the job's mu.
func (e *executor) show(run *Run) {
	run.Waits = e.pace.waits(e.runner.now())
	for i := range run.Passes {
		p := &run.Passes[i]
		live := e.live[nameOf(*p)]
		if live == nil || p.Outcome != Running {
			continue
		}
		spent := e.runner.config.Tokens.spent(live.token)
		p.Units, p.Calls, p.Tail = spent.Units, spent.Calls, live.tail.lines()
		if p.Process != nil {
			p.PID = p.Process.PID
		}
	}
}
