package jobs

import (
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A Prospect is a job where it stands, from which it can be foreseen how it goes on.
type Prospect struct {
	Job    *Job
	Cursor regions.Cursor
	Pause  *Pause  // nil unless it is paused
	course *course // the run under way; nil if there is none
}

// A course is a run with how far it has come.
type course struct {
	slot    time.Time
	ring    regions.Ring
	stagger time.Duration
	turns   bool // it moves the cursor
	begun   int  // so many of its passes have begun
}

// Outset returns what a plan begins with now, without the books: every job where
// it stands, in the order of configuration. It is not foreseen what a pass under
// way will still spend, nor how a run on another host goes on.
func (r *Runner) Outset() Outset {
	desks := r.all()
	r.refreshAll(desks)
	o := Outset{From: r.now().Truncate(time.Millisecond)}
	for _, d := range desks {
		o.Jobs = append(o.Jobs, d.prospect())
	}
	return o
}

func (d *desk) prospect() Prospect {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := Prospect{Job: d.job, Cursor: d.memory.Cursor}
	if d.memory.Pause != nil {
		pause := *d.memory.Pause
		p.Pause = &pause
	}
	if w := d.walk; w != nil && w.goesOn() {
		p.course = &course{slot: w.slot, ring: w.ring, stagger: w.stagger, turns: w.turns, begun: len(w.run.Passes)}
	}
	return p
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

// A player is a job that is played, pass by pass.
type player struct {
	Prospect
	index   int // of its JobPlan
	told    int // index of the RunPlan that tells of its run; -1: none does
	book    *quota.Simulation
	charges []quota.Charge
	next    time.Time // when its next pass comes; zero: none does
}

// await has the job wait for its next pass: of the run under way, else of the
// first slot after now at which it is not paused.
func (p *player) await(now time.Time) {
	if c := p.course; c != nil {
		p.next = regions.Start(c.slot, c.stagger, c.begun)
		if p.next.Before(now) {
			p.next = now
		}
		return
	}
	p.next = p.Job.Schedule.Next(now)
	if p.next.IsZero() || !p.Pause.active(p.next) {
		return
	}
	if p.Pause.Until.IsZero() {
		p.next = time.Time{}
		return
	}
	p.next = p.Job.Schedule.Next(p.Pause.Until.Add(-1))
}

// begin begins the run of the slot that the job waited for.
func (p *player) begin() {
	ring := p.Job.Regions.From(p.Cursor)
	p.course = &course{slot: p.next, ring: ring, stagger: p.Job.stagger(p.next, len(ring)), turns: true}
}

// launched goes on to the next region, or ends the run behind the last one.
func (p *player) launched(at time.Time) {
	p.course.begun++
	if p.course.begun == len(p.course.ring) {
		p.end(at)
		return
	}
	p.await(at)
}

// end ends the run: the next one begins at the region that this one did not
// reach, at the first slot that comes once this run is over.
func (p *player) end(at time.Time) {
	c := p.course
	p.course = nil
	if c.turns {
		reached := 0
		p.Cursor = c.ring.Advance(func(regions.Region) bool { reached++; return reached <= c.begun })
	}
	p.await(at)
}
