package jobs

import (
	"errors"
	"fmt"

	"quotad/quota"
)

// judge decides what became of a pass. What ended it counts in this order: a person or a stop, a refusal, ours or the
// upstream's, that nothing later cured, our timeout, that none of its calls was made, its exit code.
func judge(exit Exit, spent passCalls) (outcome Outcome, detail string) {
	switch {
	case exit.Err != nil:
		return Failed, exit.Err.Error()
	case errors.Is(exit.Cause, ErrOperator), errors.Is(exit.Cause, ErrShutdown):
		return Interrupted, exit.Cause.Error()
	case spent.Lacks != nil, errors.Is(exit.Cause, errDenied):
		return Exhausted, denial(exit, spent.Lacks)
	case exit.Cause != nil:
		return Timeout, exit.Cause.Error()
	case spent.Refuses != "":
		return Failed, spent.Refuses
	case spent.unserved():
		return Failed, quota.Count(spent.Refused, "call", "calls") + " and none made: " + spent.Why
	case exit.Code == ExitExhausted:
		return Exhausted, fmt.Sprintf("exit status %d, without a denial", exit.Code)
	case exit.Signal != "":
		return Killed, "killed by " + exit.Signal
	case exit.Code != 0:
		return Failed, fmt.Sprintf("exit status %d", exit.Code)
	case exit.Left > 0:
		return OK, fmt.Sprintf("left %s, of which %d could not be ended", quota.Count(exit.Swept, "process running", "processes running"), exit.Left)
	case exit.Swept > 0:
		return OK, "left " + quota.Count(exit.Swept, "process running, which was ended", "processes running, which were ended")
	}
	return OK, ""
}

// denial says what a pass was refused, and that this ended it, if it did not stop by itself.
func denial(exit Exit, lacks *Stop) string {
	text := "denied" // and granted as it was ended
	if lacks != nil {
		text = lacks.Detail
	}
	switch {
	case errors.Is(exit.Cause, errDenied):
		text += "; ended " + quota.Brief(deniedGrace) + " later"
	case exit.Cause != nil:
		text += "; waited until its timeout"
	}
	return text
}

// maxAgain is how often a run serves a region again that a limit has stopped.
const maxAgain = 3

// consequence returns why the run launches nothing more after the pass, nil if it continues, and
// completes the pass with the reason.
func (e *executor) consequence(p *Pass, exit Exit, spent passCalls) error {
	switch {
	case p.Outcome == Exhausted:
		if lacks := spent.Lacks; lacks != nil {
			p.Limit, p.Needs, p.RetryAt = lacks.Limit, lacks.Needs, lacks.RetryAt
		}
		until := p.RetryAt
		if p.Attempt > 0 && spent.Denied && e.job.waitsFor(spent.WholeAt, e.runner.now()) {
			until = quota.Later(until, spent.WholeAt) // call by call it returns too slowly
		}
		if !until.IsZero() && p.Attempt < maxAgain && e.waitsFor(p.Limit, until) {
			return nil
		}
		return halted{Stop{BudgetGone, p.Detail, p.Limit, p.Needs, p.RetryAt}}
	case p.Outcome == Interrupted:
		p.Reason = reasonOf(exit.Cause)
		return exit.Cause
	case spent.Refuses != "":
		return halted{Stop{Reason: UpstreamRefuses, Detail: spent.Refuses}}
	}
	return nil
}
