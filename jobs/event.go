package jobs

import (
	"time"

	"quotad/quota"
)

// Config.OnEvent is called with one of these. Their contents are the callee's own.
type (
	// RunChanged means that a run has begun, has ended, or was skipped. Its State says which.
	RunChanged struct {
		Run  Run
		Next time.Time // of one that is over: when the schedule has the next one; zero: unknown
	}

	// PassChanged means that a pass has begun, has ended, or was not launched. The run is without its passes.
	PassChanged struct {
		Run        Run
		Pass       Pass
		Credential string // of its job; empty of a pass that was found dead at the start
	}

	// GateRefused means that the gate kept a pass from beginning.
	GateRefused struct {
		Credential string
		Decision   quota.Decision
	}

	// Output is a line that a pass has written.
	Output struct {
		Job, Run string
		Pass     Pass
		Line     Line
	}

	// Trouble means that something of a job is not as it should be, such as a file that cannot be written.
	Trouble struct {
		Job string
		Err error
	}
)

// changed reports a run of a job.
func (r *Runner) changed(j *Job, run *Run) {
	event := RunChanged{Run: *run.copy()}
	if run.State != RunRunning {
		event.Next = j.Schedule.Next(r.now())
	}
	r.config.OnEvent(event)
}
