package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"quotad/quota"
)

// followOn decides about a slot of a job that runs after another one. It runs once a run of that job is done: that of
// its latest slot, or a later one; good is the slot of its last good run. It is over at the job's next slot. A job
// without slots has to have been run since the slot before.
func followOn(own, other Schedule, slot, good, now time.Time) (runs, over bool) {
	if next := own.Next(slot); !next.IsZero() && !now.Before(next) {
		return false, true
	}
	since := Latest(other, slot)
	if since.IsZero() {
		since = Latest(own, slot.Add(-1))
	}
	return !good.IsZero() && !good.Before(since), false
}

// follow waits until a slot of a job may run, if the job runs after another one. If it returns false, the slot is
// skipped, or quotad stops. A job that is paused, or under way, waits for nothing: it is skipped for that.
func (r *Runner) follow(ctx context.Context, j *jobControl, slot time.Time) bool {
	const often = time.Second
	defer j.follow(time.Time{}, slot)
	for now := r.now(); j.isAfter(now); now = r.now() {
		job, schedule, good := j.current(), Schedule(Unscheduled{}), time.Time{}
		if other, err := r.state(job.After); err == nil {
			schedule, good = other.lastGood(now)
		}
		runs, over := followOn(job.Schedule, schedule, slot, good, now)
		if over {
			r.skip(j, skippedSlot(slot, After, job.After))
		}
		if runs || over {
			return runs
		}
		j.follow(slot, time.Time{})
		if _, removed := r.state(j.name); removed != nil || !quota.Sleep(ctx, often) {
			return false
		}
	}
	return true
}

// isAfter returns whether the job waits for another one.
func (j *jobControl) isAfter(now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.job.After != "" && !j.state.Pause.Active(now) && j.executor == nil
}

// follow records the slot that waits, in place of another one.
func (j *jobControl) follow(slot, before time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if before.IsZero() || j.follows.Equal(before) {
		j.follows = slot
	}
}

// lastGood returns the job's schedule and the slot of its last good run.
func (j *jobControl) lastGood(now time.Time) (Schedule, time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.job.Schedule, notAhead(j.state.GoodSlot, now)
}

// CheckAfter returns what is wrong with the job that this one runs after, or nil. All are the jobs of the host.
func (j *Job) CheckAfter(all []*Job) error {
	path := j.Name
	for one, n := j, 0; one.After != "" && n <= len(all); n++ {
		i := slices.IndexFunc(all, func(other *Job) bool { return other.Name == one.After })
		switch {
		case i < 0 && one == j:
			return fmt.Errorf("job %q is not configured", j.After)
		case i < 0:
			return nil // that job says so
		case one == j && all[i].Host != j.Host:
			return fmt.Errorf("job %q runs on another host: write the same host in both", j.After)
		}
		one = all[i]
		if path += " after " + one.Name; one == j {
			return fmt.Errorf("no job of a circle would ever run: %s", path)
		}
	}
	return nil
}
