// Package jobs runs jobs: one run per tick, one pass per region, each launched
// only if the budget allows and judged by what became of it.
package jobs

import (
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A Job is a schedule, the regions it serves, the command that serves one, and
// the credential that the command spends from.
type Job struct {
	Name       string
	Credential string
	Regions    []regions.Region // at least one, no two alike; their order is the ring

	Schedule   Schedule
	Stagger    time.Duration // between the starts of two passes; EvenStagger divides the period by the regions
	RunAtStart bool          // one run when the daemon starts, then the schedule

	// Expects is a pass's usual spend, operation to calls: nothing is launched
	// that could not afford it. Empty: launch whatever remains.
	Expects map[string]quota.Units

	Command   []string          // what a pass executes: a path as resolved, and its arguments
	Dir       string            // the working directory of a pass, made when missing
	Env       map[string]string // on top of the allow-list, below the contract
	Timeout   time.Duration     // of a pass, then TERM; at least a second
	KillGrace time.Duration     // between TERM and KILL, more than zero
}

// EvenStagger spreads the passes of a run evenly over the schedule's period.
const EvenStagger time.Duration = -1

// A Schedule says when a job ticks. It is a pure function of time: the same
// before and after a restart.
type Schedule interface {
	// Next returns the first slot later than t, or the zero time if there is none.
	Next(t time.Time) time.Time
	// String returns the schedule as configured: "every 30m0s", "cron */30 * * * *".
	String() string
}
