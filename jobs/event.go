package jobs

import (
	"time"

	"quotad/quota"
)

// What Config.Observe is called with: one of these. What they hold is the observer's own.
type (
	// RunChanged: a run has begun, has ended, or was skipped. Its State says which.
	RunChanged struct {
		Run  Run
		Next time.Time // of one that is over: when the schedule has the next one; zero: nobody knows
	}

	// PassChanged: a pass of a run has begun, has ended, or was skipped. Its Outcome
	// says which. The run is without its passes.
	PassChanged struct {
		Run  Run
		Pass Pass
	}

	// GateRefused: the gate kept a pass from beginning.
	GateRefused struct {
		Credential string
		Decision   quota.Decision
	}

	// Overdue: a job that is to have a good run within a time has had none, or has one
	// again, is paused, or is not to have one any more.
	Overdue struct {
		Job      string
		Is       bool
		Since    time.Time     // when it became overdue; of one that is not, when it will be, or zero
		Expected time.Duration // within which a good run is to come
	}

	// Output: a pass has written a line.
	Output struct {
		Job, Run string
		Pass     Pass
		Line     Line
	}

	// Trouble: the runner could not keep what it should, and goes on.
	Trouble struct {
		Job string
		Err error
	}
)
