package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"quotad/quota"
)

// A heldError says which run prevents another one of its job.
type heldError struct {
	run, host string // host: if it is another one
	own       *executor
	lease     time.Duration
	silence   time.Duration // since its host appended something
	asked     bool          // a host has asked whether its host is alive, which has not answered yet
}

func (e *heldError) Error() string {
	if e.host != "" {
		return fmt.Sprintf("%v on host %s: %s", ErrUnderWay, e.host, e.run)
	}
	return fmt.Sprintf("%v: %s", ErrUnderWay, e.run)
}

func (e *heldError) Unwrap() error { return ErrUnderWay }

// A question is since when this host knows that a host has asked whether a run's host is alive.
type question struct {
	at    quota.ID
	since time.Time
}

// held returns which run holds the job, nil if none does, or if its host has not answered for
// its lease. Then over holds the end of the run. The caller holds mu.
func (j *jobControl) held() (by *heldError, over []record) {
	s := &j.state
	running := s.running()
	switch {
	case j.executor != nil:
		return &heldError{run: j.executor.run.ID, own: j.executor}, nil
	case running == nil || j.hosts == nil:
		return nil, nil
	}
	by = &heldError{run: running.ID, host: running.Host, lease: s.Terms.lease(), silence: j.hosts.clock.Sub(s.Alive.Time()), asked: !s.Asked.IsZero()}
	if running.Host == j.here.Name {
		by.host = ""
	}
	if !by.asked {
		return by, nil
	}
	if j.question.at != s.Asked {
		j.question = question{s.Asked, time.Now()}
	}
	if time.Since(j.question.since) < by.lease {
		return by, nil
	}
	return nil, []record{diedRecord(running.ID, running.lastSign())}
}

// A waiting is how a caller waits for a job that is held.
type waiting struct {
	job     *jobControl
	patient bool // it waits for the end of the run, for a while
	since   time.Time
	pause   time.Duration
	asked   bool
}

// decide is jobControl.decide of some records, once no run holds the job.
func (w *waiting) decide(ctx context.Context, list ...record) (writeErr, err error) {
	for {
		writeErr, err = w.job.decide(ctx, func() ([]record, error) {
			held, over := w.job.held()
			if held != nil {
				return nil, held
			}
			return append(over, list...), nil
		}, nil)
		if held, is := errors.AsType[*heldError](err); !is || !w.wait(ctx, held) {
			return writeErr, err
		}
	}
}

// wait waits, and returns whether to try again. It asks whether the host of a run on another
// host is alive.
func (w *waiting) wait(ctx context.Context, held *heldError) bool {
	if w.since.IsZero() {
		w.since = time.Now()
	}
	if held.own != nil {
		if !w.patient || w.job.hosts == nil {
			return false
		}
		waiting, cancel := context.WithTimeout(ctx, patienceFor(held.own.terms.lease()))
		defer cancel()
		return areOver(waiting, []*executor{held.own})
	}
	alive := held.silence < held.lease || w.asked // as far as this host knows
	switch {
	case held.asked:
	case alive && (!w.patient || time.Since(w.since) > patienceFor(held.lease)):
		return false
	case !w.asked && (!alive || w.pause > 0):
		w.asked = true
		_, _ = w.job.decide(ctx, func() ([]record, error) {
			s := &w.job.state
			if running := s.running(); running == nil || running.ID != held.run || !s.Asked.IsZero() {
				return nil, nil
			}
			return []record{{ID: held.run, Asks: true}}, nil
		}, nil)
	}
	w.pause = min(max(2*w.pause, held.lease/128), held.lease/8)
	return sleep(ctx, w.pause)
}

// patienceFor is how long a slot waits for the end of a run whose host is alive.
func patienceFor(lease time.Duration) time.Duration { return lease + lease/4 }

// inquire finds out whether the host of a run is dead that has been silent for its lease, and
// records that.
func (r *Runner) inquire(j *jobControl) {
	j.mu.Lock()
	held, _ := j.held()
	due := held != nil && held.own == nil && held.silence >= held.lease && !j.inquiring
	j.inquiring = j.inquiring || due
	j.mu.Unlock()
	if !due {
		return
	}
	r.goUnlessStopping(func(ctx context.Context) {
		_, _ = (&waiting{job: j}).decide(ctx)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.inquiring = false
	})
}

const longestLease = 7 * time.Second

// leaseTime is how long the host of a run that begins now may take to answer whether it is alive.
// If the host dies, the next slot waits that long; the wait must end before the slot after that.
// A host that is alive answers much sooner.
func leaseTime(schedule Schedule, now time.Time) time.Duration {
	const shortest = 250 * time.Millisecond
	next := schedule.Next(now)
	after := schedule.Next(next)
	if next.IsZero() || after.IsZero() {
		return longestLease
	}
	return min(max(after.Sub(next)/2, shortest), longestLease)
}

// lease is that of terms that another version of a host may have left out.
func (t *terms) lease() time.Duration {
	if t == nil || t.Lease <= 0 {
		return longestLease
	}
	return t.Lease
}

// publish appends for the other hosts what becomes of a run, and answers whether this host is
// alive, until the run is over and they know how it ended, or the runner stops: then they learn
// it at the next start. Only this goroutine waits for the network.
func (e *executor) publish() {
	j := e.control
	again := time.NewTicker(e.terms.lease() / 4)
	defer again.Stop()
	for over, published := e.over, e.published; ; {
		select {
		case <-over:
			over = nil
		case <-j.hosts.news:
		case <-again.C:
		}
		e.countMade()
		_, err := j.decide(context.Background(), e.answer, nil)
		if err == nil {
			e.runner.silent.Store(false)
		}
		if over == nil {
			if published != nil {
				close(published)
				published = nil
			}
			if err == nil || e.runner.isStopping() {
				return
			}
			continue
		}
		if err == nil && !e.holds() {
			e.halt(&stop{reason: Overlap, detail: "another host has taken the job, which could not be held meanwhile"})
		}
	}
}

// answer says that this host is alive, if another one asks.
func (e *executor) answer() ([]record, error) {
	if s := &e.control.state; !s.Asked.IsZero() && s.Last.ID == e.run.ID {
		return []record{{ID: e.run.ID, Here: true}}, nil
	}
	return nil, nil
}

// holds returns whether no other host has taken the job from this run.
func (e *executor) holds() bool {
	e.control.mu.Lock()
	defer e.control.mu.Unlock()
	running := e.control.state.running()
	return running != nil && running.ID == e.run.ID
}

// countMade records for the other hosts how many calls the passes under way were granted.
func (e *executor) countMade() {
	if len(e.job.Expects) == 0 {
		return
	}
	e.runner.trouble(e.control.name, e.control.update(false, true, func() (list []record) {
		for name, live := range e.live {
			made := e.runner.config.Tokens.made(live.token)
			if p := e.run.attempt(name.region, name.attempt); p != nil && p.Outcome == Running && !maps.Equal(made, p.Made) {
				p.Made = made
				list = append(list, passRecord(e.run.ID, *p))
			}
		}
		return list
	}))
}
