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

	// Dry is how many runs in a row began at the cursor's region and stopped
	// right there, although it had units to spend.
	Dry int `json:"dry,omitempty"`

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

// next returns the first slot later than t that the pause, which may be nil, lets run;
// the zero time if none comes.
func (p *Pause) next(s Schedule, t time.Time) time.Time {
	switch {
	case !p.active(t):
		return s.Next(t)
	case p.Until.IsZero():
		return time.Time{}
	}
	return s.Next(p.Until.Add(-1)) // a slot at its end runs
}

// patience is how many runs in a row may begin at one region and run dry there.
const patience = 3

// yields notes how the pass at the beginning of a ring ended, and tells whether
// its region has kept its turn for too long. A region that needs more than comes
// back between two runs would keep it for ever: each run would spend what has
// come back on the same beginning of its work, and nobody else would be served.
// To be denied at once is no such thing: then nothing had come back.
func (m *memory) yields(p Pass, ring regions.Ring) bool {
	if p.Region != ring[0] {
		return false
	}
	switch {
	case p.Outcome.Served():
		m.Dry = 0
	case p.Outcome == Exhausted && (p.Units > 0 || !p.Denied):
		m.Dry++
	}
	if m.Dry < patience {
		return false
	}
	m.Dry = 0
	return true
}
