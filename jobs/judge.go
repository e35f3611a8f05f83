package jobs

import (
	"cmp"
	"errors"
	"fmt"

	"quotad/quota"
)

// judge decides what became of a pass. What ended it counts in this order: a person or a stop, a
// refusal, ours or the upstream's, that nothing later cured, our timeout, that none of its calls was
// made, its exit code.
func judge(exit Exit, spent passCalls) (outcome Outcome, detail string) {
	switch {
	case exit.Err != nil:
		return Failed, exit.Err.Error()
	case errors.Is(exit.Cause, ErrOperator), errors.Is(exit.Cause, ErrShutdown):
		return Interrupted, exit.Cause.Error()
	case spent.Denied, spent.Closed != "", errors.Is(exit.Cause, errDenied):
		return Exhausted, denial(exit, spent)
	case exit.Cause != nil:
		return Timeout, exit.Cause.Error()
	case spent.Refuses != "":
		return Failed, spent.Refuses
	case spent.unserved():
		return Failed, quota.Count(spent.Refused, "call", "calls") + " and none made: " + spent.Why
	}
	return judgeExit(exit)
}

// denial says what a pass was refused, and that this ended it, if it did not stop by itself.
func denial(exit Exit, spent passCalls) string {
	text := fmt.Sprintf("denied by limit %q", spent.Limit)
	switch {
	case spent.Past != "":
		text = "settled a grant past " + spent.Past
	case spent.Closed != "" && !spent.Denied:
		text = fmt.Sprintf("the upstream says that limit %q is exhausted", spent.Closed)
	case spent.Limit == "":
		text = "denied"
	}
	switch {
	case errors.Is(exit.Cause, errDenied):
		text += "; ended " + quota.Brief(deniedGrace) + " later"
	case exit.Cause != nil:
		text += "; waited until its timeout"
	}
	return text
}

// judgeExit judges a pass that ended by itself, and about whose quota nothing is known.
func judgeExit(exit Exit) (outcome Outcome, detail string) {
	switch {
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

// consequence returns why the run launches nothing more after the pass, nil if it continues, and
// completes the pass with the reason.
func (e *executor) consequence(p *Pass, exit Exit, spent passCalls) error {
	switch p.Outcome {
	case Exhausted:
		p.RetryAt, p.Limit = spent.RetryAt, cmp.Or(spent.Limit, spent.Closed)
		if e.comesAgain(p.Region, spent) {
			return nil
		}
		return &Stop{Reason: BudgetGone, Detail: p.Detail, RetryAt: p.RetryAt, Limit: p.Limit}
	case Interrupted:
		p.Reason = reasonOf(exit.Cause)
		return exit.Cause
	}
	if spent.Refuses != "" {
		return &Stop{Reason: UpstreamRefuses, Detail: spent.Refuses}
	}
	return nil
}
