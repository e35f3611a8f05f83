package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"quotad/quota"
)

// A heldError says whose run is in the way of another one of its job.
type heldError struct {
	run, host string // host: if it is another one
	own       *executor
	lease     time.Duration
	heard     time.Duration // since somebody has heard of it
	asked     bool          // somebody has asked whether its host is there, and it has not answered yet
}

func (e *heldError) Error() string {
	if e.host != "" {
		return fmt.Sprintf("%v on host %s: %s", ErrUnderWay, e.host, e.run)
	}
	return fmt.Sprintf("%v: %s", ErrUnderWay, e.run)
}

func (e *heldError) Unwrap() error { return ErrUnderWay }

// A vigil is since when this host knows that somebody has asked whether a run's host is there.
type vigil struct {
	ask   quota.ID
	since time.Time
}

// held says whose run holds the job, or nil if none does, or if its host has not answered for
// as long as it may be silent. Then gone says that the run is over. The caller holds mu.
func (j *jobControl) held() (by *heldError, gone []record) {
	s := &j.story
	running := s.running()
	switch {
	case j.executor != nil:
		return &heldError{run: j.executor.run.ID, own: j.executor}, nil
	case running == nil || j.hosts == nil:
		return nil, nil
	}
	by = &heldError{run: running.ID, host: running.Host, lease: s.Terms.lease(), heard: j.hosts.clock.Sub(s.Heard.Time()), asked: !s.Asked.IsZero()}
	if running.Host == j.here.Name {
		by.host = ""
	}
	if !by.asked {
		return by, nil
	}
	if j.vigil.ask != s.Asked {
		j.vigil = vigil{s.Asked, time.Now()}
	}
	if time.Since(j.vigil.since) < by.lease {
		return by, nil
	}
	over := running.head()
	over.State, over.Reason, over.EndedAt = RunInterrupted, Died, running.lastSign()
	return nil, []record{endedRecord(&over)}
}

// A waiting is what one does about a job that is held.
type waiting struct {
	job     *jobControl
	patient bool // it waits for the run to be over, for a while
	since   time.Time
	pause   time.Duration
	asked   bool
}

// goOn waits, and tells whether to look again. Of a run on another host it asks whether that is
// there.
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
	is := held.heard < held.lease || w.asked // it is there, as far as one can know
	switch {
	case held.asked:
	case is && (!w.patient || time.Since(w.since) > patienceFor(held.lease)):
		return false
	case !w.asked && (!is || w.pause > 0):
		w.asked = true
		_, _ = w.job.decide(ctx, w.ask(held.run), nil)
	}
	w.pause = min(max(2*w.pause, held.lease/128), held.lease/8)
	return sleep(ctx, w.pause)
}

// patienceFor is how long a slot waits for the end of a run that is there.
func patienceFor(lease time.Duration) time.Duration { return lease + lease/4 }

// ask asks whether the host of a run is there, unless somebody has.
func (w *waiting) ask(run string) decision {
	return func() ([]record, error) {
		s := &w.job.story
		if running := s.running(); running == nil || running.ID != run || !s.Asked.IsZero() {
			return nil, nil
		}
		return []record{{ID: run, Asks: true}}, nil
	}
}

// inquire finds out whether the host of a run is gone from which nobody has heard for long, and
// says so.
func (r *Runner) inquire(j *jobControl) {
	j.mu.Lock()
	held, _ := j.held()
	if held == nil || held.own != nil || held.heard < held.lease || j.inquiring {
		j.mu.Unlock()
		return
	}
	j.inquiring = true
	j.mu.Unlock()
	r.goUnlessStopping(func(ctx context.Context) {
		for w := (waiting{job: j}); ; {
			_, err := j.decide(ctx, func() ([]record, error) {
				held, gone := j.held()
				if held != nil {
					return nil, held
				}
				return gone, nil
			}, nil)
			if held := asHeld(err); held == nil || !w.wait(ctx, held) {
				break
			}
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.inquiring = false
	})
}

// asHeld returns the error as one that says whose run is in the way, or nil.
func asHeld(err error) *heldError {
	var held *heldError
	_ = errors.As(err, &held)
	return held
}

// leaseTime is for how long the host of a run that begins now may be silent when it is asked
// whether it is there: so long does its death hold up the next slot, of which the one after it
// is not to know. It answers much sooner.
func leaseTime(schedule Schedule, now time.Time) time.Duration {
	const shortest, longest = 250 * time.Millisecond, 7 * time.Second
	next := schedule.Next(now)
	if next.IsZero() {
		return longest
	}
	after := schedule.Next(next)
	if after.IsZero() {
		return longest
	}
	return min(max(after.Sub(next)/2, shortest), longest)
}

// lease is that of terms that another version of a host may have left out.
func (t *terms) lease() time.Duration {
	if t == nil || t.Lease <= 0 {
		return 7 * time.Second
	}
	return t.Lease
}

// keep tells the other hosts what becomes of a run, and answers who asks whether this one is
// there, until the run is over and they know how it ended, or the runner stops: then they are
// told at the next start. Nobody waits for the network but this.
func (e *executor) publish() {
	j := e.state
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

// answer says that this host is there, if somebody asks.
func (e *executor) answer() ([]record, error) {
	if s := &e.state.story; !s.Asked.IsZero() && s.Last.ID == e.run.ID {
		return []record{{ID: e.run.ID, Here: true}}, nil
	}
	return nil, nil
}

// holds tells whether nobody has gone on without this run.
func (e *executor) holds() bool {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	running := e.state.story.running()
	return running != nil && running.ID == e.run.ID
}

// countMade has the others know how many calls the passes under way were granted.
func (e *executor) countMade() {
	if len(e.job.Expects) == 0 {
		return
	}
	var list []record
	e.state.mu.Lock()
	for name, live := range e.live {
		made := e.runner.config.Tokens.made(live.token)
		if p := e.state.own.attempt(name.region, name.attempt); p != nil && p.Outcome == Running && !maps.Equal(made, p.Made) {
			p.Made = made
			list = append(list, passRecord(e.run.ID, *p))
		}
	}
	e.state.mu.Unlock()
	if len(list) > 0 {
		e.runner.trouble(e.state.name, e.state.share(false, list...))
	}
}
