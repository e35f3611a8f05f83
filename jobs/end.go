package jobs

import (
	"errors"
	"time"
)

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
	limit   string // if one stopped it
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
	j.apply(logRecord{ID: e.run.ID, End: e.run.ending(e.runner.now(), cause)})
	j.executor = nil
	run := e.run.copy()
	j.mu.Unlock()
	snapshot := func() logRecord { return logRecord{Known: &j.state} }
	e.runner.trouble(j.name, errors.Join(j.log.flush(true), j.log.keep(&j.mu, snapshot)))
	e.runner.config.OnEvent(RunChanged{*run, e.job.Schedule.Next(run.EndedAt)})
}
