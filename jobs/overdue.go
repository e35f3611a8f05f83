package jobs

import (
	"context"
	"slices"
	"time"
)

// due returns when the job is overdue unless a good run ends before; zero if none is expected, or
// the job is paused until it is resumed. The time runs from the last good run on any host, or from
// when the job was first seen, or its pause ended.
func (j *jobControl) due(now time.Time) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.job.ExpectSuccess == 0 {
		return time.Time{}
	}
	since := latest(notAhead(j.state.Good, now), notAhead(j.here.Expected, now))
	if p := j.state.Pause; p != nil {
		if p.Until.IsZero() {
			return time.Time{}
		}
		since = latest(since, p.Until)
	}
	return since.Add(j.job.ExpectSuccess)
}

// watchSuccess reports when a job becomes overdue, and when it is not any more, until ctx
// ends. It reports each once, also what is so when the daemon starts.
func (r *Runner) watchSuccess(ctx context.Context) {
	overdue := map[*jobControl]bool{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
		case <-timer.C:
		}
		timer.Stop()
		if next := r.judgeSuccess(overdue); !next.IsZero() {
			timer.Reset(min(next.Sub(r.now()), time.Minute)) // the clock may be set
		}
	}
}

// judgeSuccess reports the jobs that are overdue now, or not any more, and returns when the next
// one will be; zero if none.
func (r *Runner) judgeSuccess(overdue map[*jobControl]bool) (next time.Time) {
	now := r.now()
	all := r.all()
	for j, is := range overdue {
		if is && !slices.Contains(all, j) {
			overdue[j] = false
			r.config.OnEvent(Overdue{Job: j.name})
		}
	}
	for _, j := range all {
		due := j.due(now)
		if is := isPast(due, now); is != overdue[j] {
			overdue[j] = is
			r.config.OnEvent(Overdue{Job: j.name, Is: is, Since: due, Expected: j.current().ExpectSuccess})
		}
		if due.After(now) && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	return next
}

// isPast returns whether an instant, zero if there is none, has come.
func isPast(t, now time.Time) bool { return !t.IsZero() && !now.Before(t) }
