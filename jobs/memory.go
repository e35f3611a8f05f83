package jobs

import (
	"time"

	"quotad/regions"
)

// A memory is what the daemon keeps of a job over restarts, besides its history.
type memory struct {
	Cursor regions.Cursor `json:"cursor"`
	// Slot is the last one that was ticked, and Schedule what the job's schedule
	// was then: slots of another schedule cannot have been missed.
	Slot     time.Time `json:"slot,omitzero"`
	Schedule string    `json:"schedule,omitempty"`
	Pause    *Pause    `json:"pause,omitempty"`
	Last     *Run      `json:"last,omitempty"`  // the last run, under way or over
	Skips    *Run      `json:"skips,omitempty"` // the ticks skipped since it began, or since the last other skip

	// Leftovers are the processes of a daemon that was killed, until they are
	// ended for certain.
	Leftovers []Identity `json:"leftovers,omitempty"`
}

// A Pause keeps a job from being run by its schedule.
type Pause struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"` // zero: until it is resumed
	Note  string    `json:"note,omitempty"` // why
	By    string    `json:"by,omitempty"`   // who paused it
}

// active tells whether the pause, which may be nil, holds at t.
func (p *Pause) active(t time.Time) bool {
	return p != nil && (p.Until.IsZero() || t.Before(p.Until))
}
