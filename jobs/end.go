package jobs

import (
	"errors"
	"time"

	"quotad/quota"
)

// A Stop is why a run launches nothing more, or a pass was not launched.
type Stop struct {
	Reason  Reason
	Detail  string      // for people
	Limit   string      // if one stopped it
	Needs   quota.Units // there
	RetryAt time.Time   // when it would have continued; zero: unknown
}

func (s *Stop) Error() string { return "the run stopped: " + string(s.Reason) }

// ending returns how a run ends; cause is why it launched nothing more, nil if nothing was in its way.
func (r *Run) ending(cause error) (RunState, Stop) {
	stop, stopped := errors.AsType[*Stop](cause)
	switch {
	case r.through():
		return RunDone, Stop{}
	case stopped:
		return RunStopped, *stop
	}
	return RunInterrupted, Stop{Reason: reasonOf(cause)}
}

// end ends a run, as failed if a region failed in it. It is the one place that judges that:
// people, logs and metrics go by the state.
func (r *Run) end(at time.Time, state RunState, why Stop) {
	r.EndedAt, r.State, r.Reason, r.Detail, r.RetryAt = at, state, why.Reason, why.Detail, why.RetryAt
	for i := range r.Passes {
		if p := &r.Passes[i]; p.Outcome == Running {
			p.Outcome, p.Reason, p.EndedAt, p.Process, p.Deadline = Interrupted, why.Reason, at, nil, time.Time{}
		}
	}
	if len(r.Failed()) > 0 {
		r.State = RunFailed
	}
}

// reasonOf names the cause for which we ended a run or a pass.
func reasonOf(cause error) Reason {
	if errors.Is(cause, ErrOperator) {
		return Operator
	}
	return Shutdown
}

// finish records how the run ended, and makes the job free for the next one. Cause is why it
// launched nothing more, nil if nothing was in its way.
func (e *executor) finish(cause error) {
	j, now := e.control, e.runner.now()
	j.mu.Lock()
	state, why := e.run.ending(cause)
	e.run.end(now, state, why)
	j.state.end(e.run)
	if j.state.Overlaps == e.late && e.run.Trigger != Manual {
		j.state.Overlaps = 0
	}
	j.executor = nil
	run := e.run.copy()
	j.mu.Unlock()
	e.runner.trouble(j.name, errors.Join(j.save(true, runsLine{Run: new(run.head())}), j.files.trim(now)))
	e.runner.config.OnEvent(RunChanged{*run, e.job.Schedule.Next(run.EndedAt)})
}
