package ledgertest

import (
	"context"
	"sort"
	"sync"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

// A ClientModel does what a clientlimit.Ledger does: it keeps every grant, and sums them
// all for each decision. When something fits it finds by trying.
type ClientModel struct {
	clock func() time.Time

	mu       sync.Mutex // guards what follows
	subjects map[clientlimit.Place]*modelSubject
}

// A modelSubject has its grants.
type modelSubject struct {
	last   int64 // the ms of the newest grant
	grants []modelGrant
	limits []quota.Limit
}

type modelGrant struct {
	ms    int64
	units quota.Units
}

// NewClientModel returns an empty ledger on a clock.
func NewClientModel(clock func() time.Time) *ClientModel {
	return &ClientModel{clock: clock, subjects: make(map[clientlimit.Place]*modelSubject)}
}

// Decide is as that of a clientlimit.Ledger.
func (m *ClientModel) Decide(_ context.Context, c *clientlimit.Clients, asks []clientlimit.Ask) []quota.Decision {
	m.mu.Lock()
	defer m.mu.Unlock()
	decisions := make([]quota.Decision, len(asks))
	for i, ask := range asks {
		decisions[i] = m.decide(c, ask)
	}
	return decisions
}

func (m *ClientModel) decide(c *clientlimit.Clients, ask clientlimit.Ask) quota.Decision {
	clock := m.clock().UnixMilli()
	s := m.subject(c, ask)
	now := s.now(c, clock)
	d := quota.Decision{Units: ask.Units, Now: time.UnixMilli(clock).UTC(), Limits: s.states(c, now)}
	for _, l := range c.Limits {
		if ask.Units > l.Units && !l.DryRun {
			d.Reason, d.Limit, d.Detail = quota.CostExceedsLimit, l.Name, "can never fit"
			return charged(d)
		}
	}
	for i, l := range c.Limits {
		if room := l.Units - ask.Units; d.Limits[i].Used > room && !l.DryRun {
			if at := time.UnixMilli(s.falls(c, l, now, room)).UTC(); at.After(d.RetryAt) {
				d.Reason, d.Limit, d.RetryAt, d.RetryAfter = quota.LimitExceeded, l.Name, at, at.Sub(d.Now)
			}
		}
	}
	if !d.Granted() {
		return charged(d)
	}
	s.grants, s.last = saturated(s.grants, modelGrant{now, ask.Units}), now
	m.subjects[c.Place(ask.Subject)] = s
	d.Limits = s.states(c, now)
	return d
}

// saturated returns grants with one more. Those of one ms are one.
func saturated(grants []modelGrant, g modelGrant) []modelGrant {
	if n := len(grants) - 1; n >= 0 && grants[n].ms == g.ms {
		g.units += grants[n].units
		grants = grants[:n]
	}
	g.units = min(g.units, clientlimit.MaxUnits)
	return append(grants, g)
}

// charged returns a refusal with what was asked for in each limit.
func charged(d quota.Decision) quota.Decision {
	for i := range d.Limits {
		d.Limits[i].Cost = d.Units
	}
	return d
}

// Usage is as that of a clientlimit.Ledger.
func (m *ClientModel) Usage(_ context.Context, c *clientlimit.Clients, of clientlimit.Ask) (quota.Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clock := m.clock().UnixMilli()
	s := m.subject(c, of)
	now := s.now(c, clock)
	return quota.Usage{Now: time.UnixMilli(clock).UTC(), Limits: s.states(c, now)}, nil
}

// Reset is as that of a clientlimit.Ledger.
func (m *ClientModel) Reset(_ context.Context, c *clientlimit.Clients, of clientlimit.Ask) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.subjects, c.Place(of.Subject))
	return nil
}

// ends reports whether, by the time that the clock shows, a subject's record may be gone
// that counts something at an earlier time.
func (m *ClientModel) ends(earlier, clock time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.subjects {
		for _, l := range s.limits {
			window := l.Window.Length.Milliseconds()
			// A log's lasts as long as its longest window, a counter's up to two.
			for _, ends := range []int64{s.last + window, (s.last/window + 2) * window} {
				if ends > earlier.UnixMilli() && ends <= clock.UnixMilli() {
					return true
				}
			}
		}
	}
	return false
}

func (m *ClientModel) subject(c *clientlimit.Clients, of clientlimit.Ask) *modelSubject {
	if s := m.subjects[c.Place(of.Subject)]; s != nil {
		return s
	}
	return &modelSubject{limits: c.Limits}
}

// now is the clock's time, and not before what is known of the newest grant: its time in a
// log, the beginning of its bucket in a counter.
func (s *modelSubject) now(c *clientlimit.Clients, clock int64) int64 {
	if c.Algorithm == clientlimit.Log {
		return max(clock, s.last)
	}
	for _, l := range c.Limits {
		window := l.Window.Length.Milliseconds()
		clock = max(clock, s.last/window*window)
	}
	return clock
}

// used is what a limit counts at an instant.
func (s *modelSubject) used(c *clientlimit.Clients, l quota.Limit, now int64) quota.Units {
	window := l.Window.Length.Milliseconds()
	if c.Algorithm == clientlimit.Counter {
		return counted(s.grants, window, now)
	}
	sum := quota.Units(0)
	for _, g := range s.grants {
		if g.ms > now-window {
			sum += g.units
		}
	}
	return sum
}

// counted is what a counter makes of grants.
func counted(grants []modelGrant, window, now int64) quota.Units {
	current, previous := quota.Units(0), quota.Units(0)
	for _, g := range grants {
		switch g.ms / window {
		case now / window:
			current += g.units
		case now/window - 1:
			previous += g.units
		}
	}
	current, previous = min(current, clientlimit.MaxUnits), min(previous, clientlimit.MaxUnits)
	return current + previous - previous*quota.Units(now%window)/quota.Units(window)
}

// falls is the first ms at which a limit counts at most that much, if nothing else happens.
func (s *modelSubject) falls(c *clientlimit.Clients, l quota.Limit, now int64, to quota.Units) int64 {
	most := int(2*l.Window.Length.Milliseconds()) + 1
	return now + int64(sort.Search(most, func(n int) bool { return s.used(c, l, now+int64(n)) <= to }))
}

func (s *modelSubject) states(c *clientlimit.Clients, now int64) []quota.LimitState {
	var states []quota.LimitState
	for _, l := range c.Limits {
		state := quota.LimitState{Limit: l, Used: s.used(c, l, now)}
		if state.Used > 0 {
			at := s.falls(c, l, now, state.Used-1)
			state.NextAt, state.NextUnits = time.UnixMilli(at).UTC(), state.Used-s.used(c, l, at)
		}
		states = append(states, state)
	}
	return states
}
