package jobs

import (
	"errors"
	"time"
)

// A stop is why a run launches nothing more of its own accord.
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
