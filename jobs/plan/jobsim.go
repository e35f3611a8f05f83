package plan

import (
	"slices"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/slidinglog"
	"quotad/regions"
)

// A jobSim is a job as it goes on, pass by pass.
type jobSim struct {
	jobs.JobState
	limits  *slidinglog.Simulation
	charges []quota.Charge // of a pass
	cost    quota.Units    // of a pass, as a run counts it
	run     timetable      // of the run under way
	next    time.Time      // when its next pass comes; zero: none does
	outcome *Job
	told    *Run // nil if its run is not told
}

// await has the job wait for its next pass: of the run under way, else of the
// first slot after now at which it is not paused.
func (j *jobSim) await(now time.Time) {
	if r := j.Run; r != nil {
		j.next = j.run.start(r.Begun)
		if j.next.Before(now) {
			j.next = now
		}
		return
	}
	j.next = j.Job.Schedule.Next(now)
	if j.next.IsZero() || !pausedAt(j.Pause, j.next) {
		return
	}
	if j.Pause.Until.IsZero() {
		j.next = time.Time{}
		return
	}
	j.next = j.Job.Schedule.Next(j.Pause.Until.Add(-1))
}

// pausedAt tells whether a pause, nil if there is none, holds at t.
func pausedAt(p *jobs.Pause, t time.Time) bool {
	return p != nil && (p.Until.IsZero() || t.Before(p.Until))
}

// begin begins the run of the slot that the job waited for.
func (j *jobSim) begin() {
	ring := j.Job.Regions.From(j.Cursor)
	j.run = timetableOf(j.Job, j.cost, j.next, j.Job.Schedule.Next(j.next))
	j.Run = &jobs.Progress{Slot: j.next, Ring: ring, MovesCursor: true}
	j.outcome.Runs++
}

// waits has the job's next pass wait for a limit that comes back soon, if it does.
func (j *jobSim) waits(at time.Time, d quota.Decision) bool {
	if !d.Denied() || !d.RetryAt.After(at) || !j.Job.WaitsFor(d.RetryAt, at) {
		return false
	}
	j.next = d.RetryAt
	return true
}

// launched goes on to the next region, or ends the run behind the last one.
func (j *jobSim) launched(at time.Time) {
	j.Run.Begun++
	if j.Run.Begun == len(j.Run.Ring) {
		j.end(at)
		return
	}
	j.await(at)
}

// end ends the run: the next one begins at the region that this one did not
// reach, at the first slot that comes once this run is over.
func (j *jobSim) end(at time.Time) {
	r := j.Run
	j.Run = nil
	if r.MovesCursor {
		reached := 0
		j.Cursor = r.Ring.Advance(func(regions.Region) bool { reached++; return reached <= r.Begun })
	}
	j.await(at)
}

// region returns what becomes of a region; of one that the run under way has, and the job not any
// more, nothing is told.
func (j *jobSim) region(name regions.Region) *Region {
	list := j.outcome.Regions
	i := slices.IndexFunc(list, func(r Region) bool { return r.Region == name })
	if i < 0 {
		return &Region{}
	}
	return &list[i]
}
