package plan

import (
	"math"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/regions"
)

// A timetable is when the passes of one run start, and by when they are over. Both the
// simulation and the sums use it.
type timetable struct {
	slot     time.Time
	stagger  time.Duration
	longest  time.Duration // that one pass may take
	regions  int           // regions of the run
	passes   int           // those for which the run's own units are enough
	overlaps time.Duration // when it would overlap the next run, from the slot
}

// timetableOf returns that of a job's run, in which a pass costs cost. Next is the slot after the
// run's, zero if there is none.
func timetableOf(job *jobs.Job, cost quota.Units, slot, next time.Time) timetable {
	t := timetable{
		slot: slot, longest: job.Timeout + job.KillGrace, regions: len(job.Regions), passes: len(job.Regions),
		overlaps: math.MaxInt64,
	}
	var period time.Duration
	if !next.IsZero() {
		period = next.Sub(slot)
		t.overlaps = period
	}
	t.stagger = job.StaggerWithin(period, t.regions)
	if job.UnitsPerRun > 0 && cost > 0 {
		t.passes = min(t.passes, int(job.UnitsPerRun/cost))
	}
	return t
}

// underWay returns the timetable of the rest of a run that is under way.
func underWay(run *jobs.Progress, job *jobs.Job, cost quota.Units) timetable {
	t := timetable{slot: run.Slot, stagger: run.Stagger, regions: len(run.Ring), passes: len(run.Ring)}
	if job.UnitsPerRun > 0 && cost > 0 {
		t.passes = min(t.passes, run.Begun+int(max(0, job.UnitsPerRun-run.Spent)/cost))
	}
	return t
}

// start returns when the i-th pass starts, from 0.
func (t timetable) start(i int) time.Time { return regions.Start(t.slot, t.stagger, i) }

// over returns by when the i-th pass has spent all: the longest that it may take after its start,
// if the next one starts no earlier; else when all regions have taken that long, one after the
// other; but before the next run in either case.
func (t timetable) over(i int) time.Time {
	last := t.overlaps - time.Millisecond
	if t.stagger >= t.longest {
		return t.slot.Add(min(time.Duration(i)*t.stagger+t.longest, last))
	}
	if t.longest > last/time.Duration(t.regions) {
		return t.slot.Add(last)
	}
	return t.slot.Add(time.Duration(t.regions) * t.longest)
}
