package jobs

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A publisher keeps the lock of a run while it is under way, and tells the other hosts
// what becomes of it. It is one goroutine: nobody waits for the network but it. The
// lock ends with its host, a little later.
type publisher struct {
	executor *executor
	length   time.Duration // for which the job is locked at a time
	news     chan struct{} // holds one if there is something to tell
	over     chan struct{} // closed when the run is over and recorded
	end      record        // how it ended, for who has seen over closed
	tried    chan struct{} // closed when its end has been told, or could not be at once

	mu      sync.Mutex // guards what follows
	pending []record   // that the others do not know, the oldest first
	failed  bool       // the last attempt did: what was told before may be lost
}

func newPublisher(e *executor, length time.Duration) *publisher {
	return &publisher{executor: e, length: length, news: make(chan struct{}, 1), over: make(chan struct{}), tried: make(chan struct{})}
}

// tell has a record told soon, and returns at once. Where there is no other host, nobody is told.
func (p *publisher) tell(one record) {
	if !p.executor.runner.shared {
		return
	}
	p.mu.Lock()
	p.pending = append(p.pending, one)
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// keep tells and renews until the run is over and the others know how it ended, or the
// runner stops: then they are told at the next start.
func (p *publisher) keep() {
	var renew <-chan time.Time // nil: no other host could take the job
	if p.executor.runner.shared {
		timer := time.NewTicker(renewal(p.length))
		defer timer.Stop()
		renew = timer.C
	}
	for {
		select {
		case <-p.over:
			p.finish(renew)
			return
		case <-p.news:
		case <-renew:
		}
		held, err := p.send(p.length)
		if err == nil && !held {
			p.executor.halt(&stop{reason: Overlap, detail: "another host has taken the job, which could not be held meanwhile"})
		}
	}
}

// finish tells how the run has ended and gives the lock back, in one: who knows that it is
// over may begin the next one.
func (p *publisher) finish(again <-chan time.Time) {
	p.tell(p.end)
	for tried := p.tried; ; {
		_, err := p.send(0)
		if tried != nil {
			close(tried)
			tried = nil
		}
		if err == nil {
			p.executor.state.setTold(p.executor.id)
			return
		}
		select {
		case <-again:
		case <-p.executor.runner.stopped:
			return
		}
	}
}

// send tells what is pending, and how far the ring's turn has come, and renews the lock.
func (p *publisher) send(length time.Duration) (held bool, err error) {
	e := p.executor
	if !e.runner.shared {
		return true, nil
	}
	p.mu.Lock()
	list, again := p.pending, p.failed
	p.mu.Unlock()
	known := len(list)
	if run := e.whole(again); run != nil { // at least as far as the list
		if length > 0 {
			run.State = RunRunning // its end is told with the lock
		}
		list = run.records()
	}
	parts, err := e.standing(list)
	lines, err2 := encodeLines(list)
	e.runner.trouble(e.state.name, errors.Join(err, err2))
	held, err = e.runner.append(context.Background(), e.state, e.id, length, parts, lines)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed = err != nil; err == nil {
		p.pending = p.pending[known:]
	}
	return held, err
}

// whole returns how the run stands, if that is wanted, and if another one has not begun since.
func (e *executor) whole(wanted bool) *Run {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	if !wanted || e.state.last.ID != e.id {
		return nil
	}
	return e.state.last.copy()
}

// standing returns whose turn it is, after what records tell.
func (e *executor) standing(list []record) (map[string]string, error) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	var passes []Pass
	for _, one := range list {
		if one.Pass != nil {
			passes = append(passes, *one.Pass)
		}
	}
	return e.state.turnParts(passes)
}
