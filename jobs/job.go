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
	Credential string       `toml:"credential" required:"\"…\", the one that its calls are charged to"`
	Host       string       `toml:"host"`    // runs it by its schedule; empty: the first that lives
	Regions    regions.Ring `toml:"regions"` // at least one, no two alike; only regions.None of a job that has none

	Schedule   Schedule
	Stagger    time.Duration `toml:"stagger" default:"2s" even:"ok" zero:"ok"` // between two starts; see EvenStagger
	RunAtStart bool          `toml:"run_at_start"`                             // unless the latest slot has had a run

	After string `toml:"after" want:"the name of a job in quotes"` // a run of it has to be done before; empty: none

	// CatchUp says that one run makes up for slots that passed while no daemon was running, until the
	// next slot, and for a day at most.
	CatchUp bool

	// MaxWait is how long a run waits at a time for a limit that returns by then, before the next
	// slot: that is a pace, and no end of the budget. 0: the run ends.
	MaxWait time.Duration `toml:"max_wait" zero:"ok"`

	// Expects is a pass's usual spend, operation to calls: nothing is launched
	// that could not afford it. Empty: launch whatever remains.
	Expects map[string]quota.Units `toml:"expects" by:"operation"`

	UseReserve bool `toml:"use_reserve"` // its passes may spend the reserve, too

	Retry      int           `toml:"retry"`                 // how often failed regions are served again
	RetryAfter time.Duration `toml:"retry_after" zero:"ok"` // how much later, unless the next slot comes before

	Command []string          `toml:"command" is:"command" required:"[\"ytfetch\", \"trending\"]"` // its path and arguments
	Files   string            // the directory that passes keep files in; it is made when missing; empty: none
	Dir     string            `toml:"dir" is:"dir"`      // the working directory of a pass
	Env     map[string]string `toml:"env" is:"variable"` // on top of the allow-list, below the contract
	Secrets []string          // removed from what a pass writes
	Timeout time.Duration     `toml:"timeout" default:"5m"` // of a pass, then TERM
}

const (
	// KillGrace is how long a pass has from TERM to KILL.
	KillGrace = 10 * time.Second
	// deniedGrace is how long a pass may continue once it was denied what does not return before its timeout. Then
	// it is ended as at a stop.
	deniedGrace = 30 * time.Second
)

// Calls are those that a pass is expected to make.
func (j *Job) Calls() quota.Calls {
	return quota.Calls{Job: j.Name, Count: j.Expects, Pace: j.MaxWait}
}

// waitsFor returns whether a run of the job waits from now until a limit returns: that is a pace if
// it returns within MaxWait and before the next slot, and else the end of the budget.
func (j *Job) waitsFor(back, now time.Time) bool {
	next := j.Schedule.Next(now)
	return j.MaxWait > 0 && back.Sub(now) <= j.MaxWait && (next.IsZero() || back.Before(next))
}

// EvenStagger spreads the passes of a run evenly over the time until the schedule's next slot.
const EvenStagger time.Duration = -1

// StaggerWithin returns the time between the starts of two passes of a run of n regions whose schedule has its next slot
// a period later; below 0: it has none.
func (j *Job) StaggerWithin(period time.Duration, n int) time.Duration {
	if j.Stagger != EvenStagger {
		return j.Stagger
	}
	return max(0, period) / time.Duration(n)
}

// ExitExhausted is the exit code by which a pass says that it stopped because
// the budget was gone: EX_TEMPFAIL of sysexits(3).
const ExitExhausted = 75
