package jobs

import (
	"errors"
	"time"
)

// An ending is what is known of a run once it is over.
type ending struct {
	At      time.Time `json:"at"`
	State   RunState  `json:"state"`
	Reason  Reason    `json:"reason,omitempty"`
	Detail  string    `json:"detail,omitempty"`
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// of ends a run like this, as failed if a region failed in it. It is the one place that judges that:
// people, logs and metrics go by the state.
func (e *ending) of(r *Run) {
	r.EndedAt, r.State, r.Reason, r.Detail, r.RetryAt = e.At, e.State, e.Reason, e.Detail, e.RetryAt
	for i := range r.Passes {
		if p := &r.Passes[i]; p.Outcome == Running {
			p.Outcome, p.Reason, p.EndedAt, p.Process, p.Deadline = Interrupted, e.Reason, e.At, nil, time.Time{}
		}
	}
	if len(r.Failed()) > 0 {
		r.State = RunFailed
	}
}

// ending returns how a run ends; cause is why it launched nothing more, nil if nothing was in its way.
func (r *Run) ending(now time.Time, cause error) *ending {
	s, stopped := errors.AsType[*stop](cause)
	switch {
	case r.through():
		return &ending{At: now, State: RunDone}
	case stopped:
		return &ending{now, RunStopped, s.reason, s.detail, s.retryAt}
	}
	return &ending{At: now, State: RunInterrupted, Reason: reasonOf(cause)}
}

// A stop is why a run itself launches nothing more.
type stop struct {
	reason  Reason
	detail  string
	retryAt time.Time
}

func (s *stop) Error() string { return "the run stopped: " + string(s.reason) }

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
	j := e.control
	j.mu.Lock()
	j.apply(record{ID: e.run.ID, End: e.run.ending(e.runner.now(), cause)})
	j.executor = nil
	run := e.run.copy()
	j.mu.Unlock()
	e.runner.trouble(j.name, errors.Join(j.log.flush(true), j.keepLog(run.EndedAt)))
	e.release(run)
	e.runner.config.OnEvent(RunChanged{*run, e.job.Schedule.Next(run.EndedAt)})
	e.runner.checkSuccess()
}

// isUnfinished returns whether a run, which may be nil, ended with its daemon before it had gone
// through the ring.
func (r *Run) isUnfinished() bool {
	return r != nil && !r.Chosen && !r.through() && (r.State == RunInterrupted || r.State == RunFailed) && (r.Reason == Shutdown || r.Reason == Died)
}

// good returns whether a run is what a job's owner expects: the ring came round, or the run spent
// all that it may, and no region failed in the end. A run of chosen regions says nothing about
// the others.
func (r *Run) good() bool {
	return !r.Chosen && (r.State == RunDone || r.State == RunStopped && r.Reason == RunCapExceeded)
}
