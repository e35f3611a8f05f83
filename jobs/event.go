package jobs

import "quotad/quota"

// What Config.Observe is called with: one of these. What they hold is the observer's own.
type (
	// RunChanged: a run has begun, has ended, or was skipped. Its State says which.
	RunChanged struct{ Run Run }

	// PassChanged: a pass of a run has begun, has ended, or was skipped. Its Outcome
	// says which.
	PassChanged struct {
		Run  Run
		Pass Pass
	}

	// GateRefused: the gate kept a pass from beginning.
	GateRefused struct {
		Credential string
		Decision   quota.Decision
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
