package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"quotad/quota"
)

// followOn decides about a slot of a job that runs after another one. It runs once a run of that job is done: that of
// its latest slot, or a later one; good is the slot of its last good run. It is over at the job's next slot. A job
// without slots has to have been run since the slot before.
func followOn(own, other Schedule, slot, good, now time.Time) (runs, over bool) {
	since := Latest(other, slot)
	if since.IsZero() {
		since = Latest(own, slot.Add(-1))
	}
	if !good.IsZero() && !good.Before(since) {
		return true, false
	}
	next := own.Next(slot)
	return false, !next.IsZero() && !now.Before(next)
}

// follow waits until a slot of a job may run, if the job runs after another one. If it returns false, the slot is
// skipped, or quotad stops.
func (r *Runner) follow(ctx context.Context, j *jobControl, slot time.Time) bool {
	const often = time.Second
	after := j.current().After
	if after == "" {
		return true
	}
	j.mu.Lock()
	before := j.follows
	j.follows = slot
	j.mu.Unlock()
	if !before.IsZero() {
		r.skip(j, skippedSlot(before, After, after))
	}
	for {
		runs, over, mine := r.mayFollow(j, slot)
		if over {
			r.skip(j, skippedSlot(slot, After, after))
		}
		if runs || over || !mine || !quota.Sleep(ctx, often) {
			return runs
		}
	}
}

// mayFollow decides about a slot that waits. It is the caller's until a later slot comes. If the job is paused or under
// way, it waits for nothing: it is skipped for that.
func (r *Runner) mayFollow(j *jobControl, slot time.Time) (runs, over, mine bool) {
	now, schedule, good := r.now(), Schedule(Unscheduled{}), time.Time{}
	if other, err := r.state(j.current().After); err == nil {
		other.mu.Lock()
		schedule, good = other.job.Schedule, notAhead(other.state.GoodSlot, now)
		other.mu.Unlock()
	}
	_, err := r.state(j.name)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil || !j.follows.Equal(slot) {
		return false, false, false
	}
	if runs = j.job.After == "" || j.state.Pause.Active(now) || j.executor != nil; !runs {
		runs, over = followOn(j.job.Schedule, schedule, slot, good, now)
	}
	if runs || over {
		j.follows = time.Time{}
	}
	return runs, over, true
}

// CheckAfter returns what is wrong with the job that this one runs after, or nil. All are the jobs of the host.
func (j *Job) CheckAfter(all []*Job) error {
	path := []string{j.Name}
	for one := j; one.After != "" && len(path) <= len(all); {
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
		if path = append(path, one.Name); one == j {
			return fmt.Errorf("no job of a circle would ever run: %s", strings.Join(path, " after "))
		}
	}
	return nil
}
