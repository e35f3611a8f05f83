package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"quotad/quota"
)

// followOn decides about a slot of a job that runs after another one. It runs once a run of that job is done, of the
// latest slot at or before this one or a later run; good is the slot of its last good run. The slot is over at the
// job's next one. A job without slots has to have been run since the slot before.
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

// followTime is how often a slot that waits for another job looks whether that is done.
const followTime = time.Second

// follow waits until a slot of a job may run, if it is to run after another job. It returns false if it may not: then it
// is skipped, unless quotad stops.
func (r *Runner) follow(ctx context.Context, j *jobControl, slot time.Time) bool {
	if j.current().After == "" {
		return true
	}
	j.mu.Lock()
	before := j.follows
	j.follows = slot
	j.mu.Unlock()
	if !before.IsZero() {
		r.skip(j, skippedSlot(before, After, j.current().unfollowed()))
	}
	for first := true; first || quota.Sleep(ctx, followTime); first = false {
		runs, over, mine := r.mayFollow(j, slot)
		switch {
		case !mine:
			return false
		case over:
			r.skip(j, skippedSlot(slot, After, j.current().unfollowed()))
			return false
		case runs:
			return true
		}
	}
	return false
}

// mayFollow decides about a slot that waits. It is not the caller's any more once a later one has come. A job that is
// paused or under way waits for nothing: its slot is skipped for that.
func (r *Runner) mayFollow(j *jobControl, slot time.Time) (runs, over, mine bool) {
	now, schedule, good := r.now(), Schedule(Unscheduled{}), time.Time{}
	if other, err := r.state(j.current().After); err == nil {
		schedule, good = other.goodSlot(now)
	}
	_, err := r.state(j.name) // it may have been removed
	j.mu.Lock()
	defer j.mu.Unlock()
	if mine = err == nil && j.follows.Equal(slot); !mine {
		return false, false, false
	}
	runs, over = j.job.After == "" || j.state.Pause.Active(now) || j.executor != nil, false
	if !runs {
		runs, over = followOn(j.job.Schedule, schedule, slot, good, now)
	}
	if runs || over {
		j.follows = time.Time{}
	}
	return runs, over, true
}

func (j *jobControl) goodSlot(now time.Time) (Schedule, time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.job.Schedule, notAhead(j.state.GoodSlot, now)
}

func (j *Job) unfollowed() string { return fmt.Sprintf("%s had no run that was done", j.After) }

// CheckAfter returns what is wrong with the job that this one runs after, or nil. All are the jobs of the host.
func (j *Job) CheckAfter(all []*Job) error {
	if j.After == "" {
		return nil
	}
	path := []string{j.Name}
	for one := j; one.After != ""; path = append(path, one.Name) {
		i := slices.IndexFunc(all, func(other *Job) bool { return other.Name == one.After })
		switch {
		case i < 0 && one == j:
			return fmt.Errorf("job %q is not configured: %s", j.After, quota.Meant(j.After, namesOf(all), "name another"))
		case i < 0:
			return nil // that job says so
		case all[i] == j:
			return fmt.Errorf("no job of a circle would ever run: %s", strings.Join(append(path, j.Name), " after "))
		case slices.Contains(path, all[i].Name):
			return nil // a circle of others
		}
		one = all[i]
	}
	return nil
}

func namesOf(all []*Job) (names []string) {
	for _, j := range all {
		names = append(names, j.Name)
	}
	return names
}
