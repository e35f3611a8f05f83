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
			detail:  fmt.Sprintf("a pass expects %d units, limit %q has %d", d.Units, d.Limit, d.Remaining()),
			retryAt: d.RetryAt,
		}
	case quota.CostExceedsLimit:
		return &stop{reason: Unaffordable, detail: d.Detail}
	default:
		return &stop{reason: Reason(d.Reason), detail: d.Detail}
	}
}

// reasonOf names the cause for which we ended a run or a pass.
func reasonOf(cause error) Reason {
	if errors.Is(cause, ErrOperator) {
		return Operator
	}
	return Shutdown
}
