package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// keepShared writes to this host's log what it has learnt from the hosts, and reports the runs of
// hosts that died.
func (r *Runner) keepShared(j *jobControl) {
	known, marks, died := j.share.changed()
	if known != nil || len(marks) > 0 {
		r.trouble(j.name, j.commit(false, logRecord{Shared: known, Marks: marks}))
	}
	for _, last := range died {
		r.config.OnEvent(RunChanged{last.run(j.name), j.current().Schedule.Next(r.now())})
	}
}

// run is the run as far as other hosts know it: of one that a person began, only when it ended.
func (s *sharedRun) run(job string) Run {
	began := s.Slot
	if began.IsZero() {
		began = s.Ended
	}
	return Run{ID: s.ID, Job: job, Host: s.Name, Slot: began, State: s.State, Reason: s.Why, StartedAt: began, EndedAt: s.Ended}
}

// doubts returns how another host has the job otherwise, or why their record cannot be understood, and
// what is wrong with the clock; empty: nothing. The caller holds mu.
func (j *jobControl) doubts(now time.Time) (hosts, clock string) {
	const most = 5 * time.Second
	if ahead := j.state.ahead(now); !ahead.IsZero() {
		clock = fmt.Sprintf("the clock was set back: what is recorded for %v counts no more, that is %v ahead", ahead.UTC().Format(time.RFC3339), ahead.Sub(now).Round(time.Second))
	}
	if j.share == nil {
		return hosts, clock
	}
	seen, differs := j.share.last()
	switch by := seen.sent.Sub(seen.clock).Abs(); {
	case seen.err != nil:
		hosts = seen.err.Error()
	case differs != "":
		hosts = fmt.Sprintf("host %s has another schedule, other regions or other expects of the job: give all hosts the same", differs)
	case by > most && !seen.clock.IsZero():
		clock = fmt.Sprintf("the clock of this host is %v from Redis': slots begin by Redis' clock", by.Round(time.Second))
	}
	return hosts, clock
}

// movedTime is how long the end of a pass waits after a renewal: many passes that end together cost one
// more.
const movedTime = 250 * time.Millisecond

// hold keeps the job for the run until ctx ends: it renews the lease, also at the end of a pass. Only this
// goroutine waits for the network.
func (e *executor) hold(ctx context.Context) {
	j := e.control
	wait := j.share.renewTime()
	for {
		if !quota.Await(ctx, wait, e.moved) {
			return
		}
		renewing, cancel := context.WithTimeout(ctx, changeTime)
		j.mu.Lock()
		p := e.progress()
		j.mu.Unlock()
		err := j.share.renew(renewing, e.run.ID, p)
		cancel()
		if err == nil {
			j.mu.Lock()
			e.dropped = e.dropped[len(p.Done):]
			j.mu.Unlock()
		}
		e.runner.keepShared(j)
		switch wait = j.share.renewTime(); {
		case errors.Is(err, errTakenOver):
			e.halt(&stop{reason: Overlap, detail: err.Error()})
		case err != nil:
			wait = j.share.again()
		}
		quota.Sleep(ctx, movedTime)
	}
}

// progress is what the hosts are to know of the run now. The caller holds mu.
func (e *executor) progress() sharedProgress {
	j := e.control
	p := sharedProgress{Bad: j.state.Bad, Done: slices.Clone(e.dropped)}
	p.Turn.Cursor, p.Turn.Dry = e.run.advance(j.state.Cursor, j.state.Dry)
	return p
}

// shared is the run as the other hosts are to know it, and how many calls a pass makes.
func (r *Run) shared(made Made) sharedRun {
	return sharedRun{ID: r.ID, State: r.State, Why: r.Reason, OK: r.Outcomes()[OK], Of: len(r.Ring), Units: r.Spent(), Calls: made}
}

// endShared ends a run among the hosts. If the store does not answer, that is tried until it does, or
// the runner stops; then the next start does it.
func (r *Runner) endShared(j *jobControl, p sharedProgress, last sharedRun, good bool) {
	ending, cancel := context.WithTimeout(context.Background(), changeTime)
	defer cancel()
	err := j.share.end(ending, p, last, good)
	r.keepShared(j)
	if err == nil || errors.Is(err, errTakenOver) {
		return
	}
	r.goUnlessStopping(func(ctx context.Context) {
		for err != nil && quota.Sleep(ctx, j.share.again()) {
			err = j.share.settle(ctx)
			r.keepShared(j)
		}
	})
}

// askHosts changes what the hosts of a job share. What came of it is on disk on return.
func (r *Runner) askHosts(j *jobControl, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), changeTime)
	defer cancel()
	err := do(ctx)
	r.keepShared(j)
	return errors.Join(err, j.log.flush(true))
}

// bookmark returns what the last pass of a region left, on any host, or if that cannot be read, what this
// host knows.
func (r *Runner) bookmark(j *jobControl, region regions.Region) (text string, read bool) {
	var err error
	if j.share != nil {
		err = r.askHosts(j, func(ctx context.Context) error {
			_, err := j.share.readMarks(ctx, region)
			return err
		})
	}
	return j.bookmark(region), err == nil
}
