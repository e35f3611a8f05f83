package jobs

import (
	"time"

	"quotad/regions"
)

// A JobState is a job where it stands: what a simulation of it begins with.
type JobState struct {
	Job    *Job // must not be changed
	Cursor regions.Cursor
	Pause  *Pause    // nil unless it is paused
	Run    *Progress // of the run under way; nil if none will launch another pass
}

// A Progress is how far a run has come.
type Progress struct {
	Slot        time.Time
	Ring        regions.Ring // the regions of the run, in its order
	Stagger     time.Duration
	MovesCursor bool // false if somebody chose its regions
	Begun       int  // so many of its passes have begun
}

// JobStates returns every job where it stands now, in the order of configuration,
// and what the clock shows. Of a run on another host it does not know how far it
// has come.
func (r *Runner) JobStates() ([]JobState, time.Time) {
	desks := r.all()
	r.refreshAll(desks)
	list := make([]JobState, len(desks))
	for i, d := range desks {
		list[i] = d.state()
	}
	return list, r.now()
}

func (d *desk) state() JobState {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := JobState{Job: d.job, Cursor: d.memory.Cursor}
	if d.memory.Pause != nil {
		pause := *d.memory.Pause
		s.Pause = &pause
	}
	if w := d.walk; w != nil && w.goesOn() {
		s.Run = &Progress{Slot: w.slot, Ring: w.ring, Stagger: w.stagger, MovesCursor: w.turns, Begun: len(w.run.Passes)}
	}
	return s
}

// goesOn tells whether a run under way has passes left that it will launch. The
// caller holds the desk's mu.
func (w *walk) goesOn() bool {
	for _, p := range w.run.Passes {
		if p.Outcome == Skipped || p.Outcome == Exhausted || p.Outcome == Interrupted {
			return false
		}
	}
	return len(w.run.Passes) < len(w.ring)
}
