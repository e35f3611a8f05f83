package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quotad/regions"
)

// known is the record of the hosts that this host knew last.
func (s *state) known() sharedRecord {
	if s.Shared == nil {
		return sharedRecord{}
	}
	return *s.Shared
}

// marks are the bookmarks that are of the hosts.
func (s *state) marks() map[regions.Region]sharedMark {
	list := map[regions.Region]sharedMark{}
	for region, mark := range s.Bookmarks {
		if !mark.Set.IsZero() {
			list[region] = sharedMark{mark.Run, mark.Set, mark.Text}
		}
	}
	return list
}

// keepShared writes to this host's log what it has learnt from the hosts, and reports the runs of
// hosts that died.
func (r *Runner) keepShared(j *jobControl) {
	known, marks, died := j.share.changed()
	if known != nil || len(marks) > 0 {
		r.trouble(j.name, j.commit(false, record{Shared: known, Marks: marks}))
	}
	for _, last := range died {
		r.config.OnEvent(RunChanged{last.run(j.name), j.current().Schedule.Next(r.now())})
	}
}

// run is the run as far as other hosts know it.
func (s *sharedRun) run(job string) Run {
	return Run{ID: s.ID, Job: job, Host: s.Name, Slot: s.Slot, State: s.State, Reason: s.Why, StartedAt: s.Slot, EndedAt: s.Ended}
}

// watchHosts reads what the hosts share, each ten seconds until ctx ends.
func (r *Runner) watchHosts(ctx context.Context) {
	for sleep(ctx, idleTime) {
		r.lookAtHosts(ctx)
	}
}

func (r *Runner) lookAtHosts(ctx context.Context) {
	all := r.all()
	if r.config.Store == nil || len(all) == 0 {
		return
	}
	list := make([]*share, len(all))
	for i, j := range all {
		list[i] = j.share
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	lookAll(ctx, r.config.Store, list)
	for _, j := range all {
		r.keepShared(j)
		r.reportShared(j)
	}
}

// reportShared reports what is wrong among the hosts of a job, once while it is the same.
func (r *Runner) reportShared(j *jobControl) {
	const ahead = 5 * time.Second
	s, err := j.share.status(), error(nil)
	switch {
	case s.Err != nil:
		err = s.Err
	case s.Differs != "":
		err = fmt.Errorf("host %s has another schedule, other regions or other expects of the job: give all hosts the same", s.Differs)
	case s.Ahead > ahead && !s.Clock.IsZero():
		err = fmt.Errorf("the clock of this host is more than %v ahead of Redis': slots begin by Redis' clock", ahead)
	}
	j.mu.Lock()
	told := j.told
	j.told = fmt.Sprint(err)
	j.mu.Unlock()
	if told != fmt.Sprint(err) {
		r.trouble(j.name, err)
	}
}

// hold keeps the job for the run until ctx ends: it renews the lease, also at the end of each pass.
// Only this goroutine waits for the network.
func (e *executor) hold(ctx context.Context) {
	j := e.control
	wait := j.share.renewTime()
	for {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-e.moved:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
		renewing, cancel := context.WithTimeout(ctx, changeTime)
		err := j.share.renew(renewing, e.run.ID, e.progress())
		cancel()
		e.runner.keepShared(j)
		switch wait = j.share.renewTime(); {
		case errors.Is(err, errTakenOver):
			e.halt(&stop{reason: Overlap, detail: err.Error()})
		case err != nil:
			wait = j.share.again()
		}
	}
}

// progress is what the hosts are to know of the run now.
func (e *executor) progress() progress {
	j := e.control
	j.mu.Lock()
	defer j.mu.Unlock()
	p := progress{Bad: e.run.failing(e.bad, e.runner.now())}
	p.Turn.Cursor, p.Turn.Dry = e.run.advance(j.state.Cursor, j.state.Dry)
	return p
}

// mayLaunch waits until the run holds the job, and returns whether it may launch.
func (e *executor) mayLaunch() bool {
	s := e.control.share
	for s != nil && !s.mayLaunch(e.run.ID) {
		if !sleep(e.launching, s.again()) {
			return false
		}
	}
	return e.launching.Err() == nil
}

// release has the hosts know how the run ended, and that the job is free.
func (e *executor) release(run *Run) {
	j := e.control
	if j.share == nil {
		return
	}
	j.mu.Lock()
	made := j.state.measured()
	j.mu.Unlock()
	e.runner.endShared(j, e.progress(), sharedRun{
		ID: run.ID, State: run.State, Why: run.Reason, OK: run.Outcomes()[OK], Of: len(run.Ring), Units: run.Spent(), Calls: made,
	}, run.good())
}

// endShared ends a run among the hosts. If the store does not answer, that is tried until it does, or
// the runner stops; then the next start does it.
func (r *Runner) endShared(j *jobControl, p progress, last sharedRun, good bool) {
	ending, cancel := context.WithTimeout(context.Background(), changeTime)
	defer cancel()
	err := j.share.end(ending, p, last, good)
	r.keepShared(j)
	if err == nil || errors.Is(err, errTakenOver) {
		return
	}
	r.goUnlessStopping(func(ctx context.Context) {
		for err != nil && sleep(ctx, j.share.again()) {
			err = j.share.settle(ctx)
			r.keepShared(j)
		}
	})
}
