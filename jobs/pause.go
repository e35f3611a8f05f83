package jobs

import "time"

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
