package jobs

import (
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A JobState is a job where it stands: what a simulation of it begins with.
type JobState struct {
	Job    *Job // must not be changed
	Cursor regions.Cursor
	Pause  *Pause    // nil unless it is paused
	Run    *Progress // of the run under way; nil if none will launch another pass
	// Took is what a pass that ended well took of late, by operation; nil if none did.
	Took Made
}

// A Progress is how far a run has come.
type Progress struct {
	Slot        time.Time
	Ring        regions.Ring // the regions of the run, in its order
	Stagger     time.Duration
	MovesCursor bool        // false if somebody chose its regions
	Begun       int         // so many of its passes have begun
	Spent       quota.Units // by them
}

// JobStates returns every job where it stands now, in the order of configuration,
// and what the clock shows. Of a run on another host it does not know how far it
// has come.
func (r *Runner) JobStates() ([]JobState, time.Time) {
	states := r.all()
	r.look(states)
	now := r.now() // first: a run that begins meanwhile is under way, not forgotten
	list := make([]JobState, len(states))
	for i, j := range states {
		list[i] = j.snapshot()
	}
	return list, now
}

func (j *jobControl) snapshot() JobState {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := JobState{Job: j.job, Cursor: j.cursor(), Took: j.story.measured()}
	if j.story.Pause != nil {
		pause := *j.story.Pause
		s.Pause = &pause
	}
	if e := j.executor; e != nil && e.launching.Err() == nil && j.own.begun() < len(j.own.Ring) {
		s.Run = &Progress{Slot: e.slot, Ring: e.ring, Stagger: e.stagger, MovesCursor: !j.own.Chosen, Begun: j.own.begun(), Spent: e.runner.config.Tokens.spentBy(&e.budget)}
	}
	return s
}

// begun returns how many regions of the run have had a pass.
func (r *Run) begun() (n int) {
	for _, p := range r.Passes {
		if p.Attempt == 0 {
			n++
		}
	}
	return n
}
