package jobs

import (
	"errors"
	"time"
)

// Errors of a Runner, to be found by errors.Is.
var (
	// ErrUnknown: no such job, region or run.
	ErrUnknown = errors.New("not found")
	// ErrUnderWay: the job is being run already.
	ErrUnderWay = errors.New("a run of the job is under way")
	// ErrInvalid: what was asked for makes no sense.
	ErrInvalid = errors.New("invalid")
	// ErrStopping: the daemon begins nothing more.
	ErrStopping = errors.New("the daemon is stopping and begins nothing more")
)

// Why a slot does not become a run of this host.
var (
	errTaken  = errors.New("another host has claimed the slot")
	errPaused = errors.New("the job is paused")
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
