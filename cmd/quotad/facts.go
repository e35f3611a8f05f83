package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/proxy"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
)

// Facts are what events say and nothing else remembers, and the book of troubles. They judge nothing, and a restart
// begins without them. Their keys are credentials, jobs, or "credential limit".
type facts struct {
	kills []time.Time // when quotad began again after it was killed

	mu       sync.Mutex // guards what follows; nothing is waited for under it
	losses   map[string]trouble.Loss
	refuses  map[string]*trouble.Refusal
	silent   map[string]*trouble.Refusal
	closings map[string]closing
	idle     map[string]int // by job, until its next run
	book     trouble.Book
	down     bool      // the ledger was found not to decide, and not to do so since
	clock    time.Time // when it was read last
	clockWas time.Time // what it showed before it was set back
	clockBy  time.Duration
}

// A closing is what was so when a limit was closed.
type closing struct {
	since    time.Time
	used     quota.Units // -1: not known yet
	upstream bool        // an answer of the upstream closed it, seen by this host
}

func newFacts() *facts {
	return &facts{
		book: trouble.Book{Began: time.Now()}, losses: map[string]trouble.Loss{}, refuses: map[string]*trouble.Refusal{},
		silent: map[string]*trouble.Refusal{}, closings: map[string]closing{}, idle: map[string]int{},
	}
}

// record is a sink of events. It reports whether the daemon is to look at itself at once.
func (f *facts) record(event any) (urgent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e := event.(type) {
	case slidinglog.Event:
		f.ledger(e)
		return true
	case server.Decided:
		return f.decided(e)
	case upstream.Outcome:
		return f.answered(e)
	case proxy.Finished:
		_, was := f.silent[e.Credential]
		switch {
		case e.Silent != "" && !was:
			f.silent[e.Credential] = &trouble.Refusal{Since: time.Now(), Says: e.Silent}
		case e.Silent == "" && e.Status > 0:
			delete(f.silent, e.Credential)
		}
	case jobs.RunChanged:
		delete(f.idle, e.Run.Job)
		return e.Run.State == jobs.RunFailed
	case jobs.PassChanged:
		if r, refused := f.refuses[e.Credential]; refused && e.Pass.Outcome == jobs.OK && e.Pass.Calls > 0 && e.Pass.StartedAt.After(r.Since) {
			delete(f.refuses, e.Credential) // not every job reports good answers
			return true
		}
	}
	return false
}

func (f *facts) ledger(e slidinglog.Event) {
	loss, lost := f.losses[e.Credential]
	switch e.Kind {
	case slidinglog.LostLog:
		f.down = false
		if !lost || !loss.Back.IsZero() {
			f.losses[e.Credential] = trouble.Loss{Credential: e.Credential, At: time.Now()}
		}
	case slidinglog.Restored:
		if lost { // else it is what the journal of another backend carries along
			loss.Records += e.Records
			f.losses[e.Credential] = loss
		}
	case slidinglog.Down, slidinglog.Up:
		f.down = e.Kind == slidinglog.Down
	}
}

// decided records what operators do to a limit, and that the ledger did not answer.
func (f *facts) decided(e server.Decided) (urgent bool) {
	switch {
	case e.Err != nil:
		return errors.Is(e.Err, quota.ErrUnavailable) && !errors.Is(e.Err, context.Canceled)
	case e.Verb == "close" && e.Decision.Granted():
		delete(f.closings, e.Request.Credential+" "+e.Decision.Limit)
	}
	return false
}

// answered records what an upstream says of a key.
func (f *facts) answered(out upstream.Outcome) (urgent bool) {
	c := out.Credential
	was, refused := f.refuses[c]
	switch {
	case out.Class == upstream.OK:
		delete(f.refuses, c)
		return refused
	case out.Class == upstream.Key, out.Class == upstream.Billing:
		if refused && was.Says == out.Says {
			return false
		}
		f.refuses[c] = &trouble.Refusal{Since: time.Now(), Says: out.Says}
		return true
	case out.Changed:
		f.closings[c+" "+out.Limit] = closing{out.Closed.Since, -1, true}
	}
	return false
}

// tick records a step of the clock since the last one.
func (f *facts) tick(now time.Time) {
	const least = 5 * time.Second
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.clock.IsZero() {
		if by := now.Sub(f.clock) - now.Round(0).Sub(f.clock.Round(0)); by > least { // monotonic less wall
			f.clockWas, f.clockBy = now.Add(by).Round(0), by
		}
	}
	f.clock = now
}

// complete adds to the state what events have said. The ledger was asked about its health no earlier than at a time.
func (f *facts) complete(s *trouble.State, asked time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Ledger.Down, s.ClockWas, s.ClockBy, s.Kills = f.down, f.clockWas, f.clockBy, f.kills
	s.Disk.WasLow = f.book.Has(trouble.Disk, "host", "low")
	for i := range s.Credentials {
		c := &s.Credentials[i]
		s.Losses = append(s.Losses, f.lossOf(c.Name, s.Ledger.Health, asked)...)
		c.Refuses, c.Silent = f.refuses[c.Name], f.silent[c.Name]
		if s := c.Silent; s != nil && strings.Contains(s.Says, " answers 5") && time.Since(s.Since) < time.Minute {
			c.Silent = nil // an error of a moment
		}
		for n := range c.Limits {
			f.completeLimit(c.Name+" "+c.Limits[n].Name, &c.Limits[n])
		}
	}
}

// lossOf returns what a log has lost, if it has lost anything. After a Redis with all its data was started again, nothing
// is put back.
func (f *facts) lossOf(credential string, h quota.Health, asked time.Time) []trouble.Loss {
	loss, lost := f.losses[credential]
	if !lost {
		return nil
	}
	if loss.Back.IsZero() && h.Reachable && !slices.Contains(h.Recovering, credential) && loss.At.Before(asked) {
		if loss.Records == 0 {
			delete(f.losses, credential)
			return nil
		}
		loss.Back = time.Now()
		f.losses[credential] = loss
	}
	return []trouble.Loss{loss}
}

func (f *facts) completeLimit(name string, l *trouble.LimitState) {
	if l.Closed.IsZero() {
		delete(f.closings, name)
		return
	}
	was, known := f.closings[name]
	if !known || was.used < 0 || was.since.Before(l.Closed.Since) {
		was = closing{l.Closed.Since, l.Used, was.upstream}
		f.closings[name] = was
	}
	l.ClosedAt, l.ByHand = was.used, strings.HasPrefix(l.Closed.By, "@") && !was.upstream
}

// dated returns a list with the times since when its troubles are known.
func (f *facts) dated(list []trouble.Trouble, now time.Time) []trouble.Trouble {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.book.Dated(list, now)
}

// update returns what began and what is over since the last time.
func (f *facts) update(list []trouble.Trouble, now time.Time) []trouble.Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.book.Update(list, now)
}

// idleRuns is how many runs of a job are looked at for calls.
const idleRuns = 5

// idleOf returns how many of the last runs of a job there are, if each ended well and made no call; else 0. It reads them
// after a run.
func (f *facts) idleOf(job string, runs func(job string, n int) ([]jobs.Run, error)) (n int) {
	f.mu.Lock()
	n, known := f.idle[job]
	f.mu.Unlock()
	if known {
		return n
	}
	last, _ := runs(job, idleRuns)
	n = idle(last)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle[job] = n
	return n
}

func idle(runs []jobs.Run) (n int) {
	calls := func(p jobs.Pass) bool { return p.Calls > 0 }
	for _, run := range runs {
		switch {
		case run.State == jobs.RunRunning, run.State == jobs.RunSkipped:
		case run.State == jobs.RunDone && !slices.ContainsFunc(run.Passes, calls):
			n++
		default:
			return 0
		}
	}
	return n
}
