package jobs

import (
	"errors"
	"fmt"
	"time"

	"quotad/quota"
)

// A stop is why a run launches nothing more of its own accord.
type stop struct {
	reason  Reason
	detail  string
	retryAt time.Time
}

func (s *stop) Error() string { return "the run stopped: " + string(s.reason) }

// refusal says why the gate let a pass not through.
func refusal(d quota.Decision) *stop {
	switch d.Reason {
	case quota.LimitExceeded:
		return &stop{
			reason:  Unaffordable,
			detail:  fmt.Sprintf("a pass expects %s, %s", d.Units.Text(), whatIsLeft(d)),
			retryAt: d.RetryAt,
		}
	case quota.CostExceedsLimit:
		return &stop{reason: Unaffordable, detail: d.Detail}
	default:
		return &stop{reason: Reason(d.Reason), detail: d.Detail}
	}
}

// whatIsLeft says what the limit that refused has. One that counts as spent holds
// nothing back: what it holds is not known.
func whatIsLeft(d quota.Decision) string {
	for _, l := range d.Limits {
		if l.Name == d.Limit && !l.CatchingUp.IsZero() {
			return fmt.Sprintf("limit %q counts as spent until its log is as long as its window", d.Limit)
		}
	}
	return fmt.Sprintf("limit %q has %s", d.Limit, quota.Thousands(d.Remaining()))
}

// reasonOf names the cause for which we ended a run or a pass.
func reasonOf(cause error) Reason {
	if errors.Is(cause, ErrOperator) {
		return Operator
	}
	return Shutdown
}
