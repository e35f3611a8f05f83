package ledgertest

import (
	"context"
	"maps"
	"slices"
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
	subjects map[clientKey]*modelSubject
	sealed   map[clientKey]bool
}

type clientKey struct {
	name      string
	algorithm clientlimit.Algorithm
	subject   clientlimit.Key
}

// A modelSubject has its grants by window: the counter carries over what is counted in
// one to another.
type modelSubject struct {
	last    int64 // the ms of the newest grant, or of the last change of windows
	windows map[int64][]modelGrant
	owned   map[int64]int64 // of each window, the ms at which a host that has it wrote last
}

type modelGrant struct {
	ms    int64
	units quota.Units
}

// NewClientModel returns an empty ledger on a clock.
func NewClientModel(clock func() time.Time) *ClientModel {
	return &ClientModel{clock: clock, subjects: make(map[clientKey]*modelSubject), sealed: make(map[clientKey]bool)}
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
	key, former := clientKey{c.Name, c.Algorithm, ask.Subject}, clientKey{c.Name, c.Algorithm, ask.Former}
	if m.sealed[key] || ask.UntilMs > 0 && clock > ask.UntilMs {
		return quota.Decision{Err: clientlimit.ErrMoved}
	}
	s := m.subject(c, ask)
	now := s.now(c, clock)
	moved, changed := s.follow(c, now)
	keep := func() {
		if m.subjects[key] == nil && ask.Former != "" && clock < ask.SealMs {
			m.sealed[former] = true
		}
		m.subjects[key] = moved
	}
	if changed {
		keep()
	}
	d := quota.Decision{Units: ask.Units, Now: time.UnixMilli(clock).UTC(), Limits: moved.states(c, now)}
	for _, l := range c.Limits {
		if ask.Units > l.Units && !l.DryRun {
			d.Reason, d.Limit, d.Detail = quota.CostExceedsLimit, l.Name, "can never fit"
			return charged(d)
		}
	}
	for i, l := range c.Limits {
		if room := l.Units - ask.Units; d.Limits[i].Used > room && !l.DryRun {
			if at := time.UnixMilli(moved.falls(c, l, now, room)).UTC(); at.After(d.RetryAt) {
				d.Reason, d.Limit, d.RetryAt, d.RetryAfter = quota.LimitExceeded, l.Name, at, at.Sub(d.Now)
			}
		}
	}
	if !d.Granted() {
		return charged(d)
	}
	for _, l := range c.Limits {
		moved.owned[l.Window.Length.Milliseconds()] = now
	}
	for _, window := range c.Kept {
		moved.owned[window.Milliseconds()] = now
	}
	for window := range moved.windows {
		moved.windows[window] = saturated(moved.windows[window], modelGrant{now, ask.Units})
	}
	moved.last = now
	keep()
	d.Limits = moved.states(c, now)
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
	s, _ = s.follow(c, now)
	return quota.Usage{Now: time.UnixMilli(clock).UTC(), Limits: s.states(c, now)}, nil
}

// Reset is as that of a clientlimit.Ledger.
func (m *ClientModel) Reset(_ context.Context, c *clientlimit.Clients, of clientlimit.Ask) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range []clientlimit.Key{of.Subject, of.Former} {
		delete(m.subjects, clientKey{c.Name, c.Algorithm, key})
	}
	return nil
}

// ends reports whether, by the time that the clock shows, a subject's record may be gone
// that counts something at an earlier time.
func (m *ClientModel) ends(earlier, clock time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.subjects {
		for window := range s.windows {
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
	for _, key := range []clientlimit.Key{of.Subject, of.Former} {
		if s := m.subjects[clientKey{c.Name, c.Algorithm, key}]; s != nil {
			return s
		}
	}
	return &modelSubject{}
}

// now is the clock's time, and not before what is known of the newest grant: its time in a
// log, the beginning of its bucket in a counter.
func (s *modelSubject) now(c *clientlimit.Clients, clock int64) int64 {
	if c.Algorithm == clientlimit.Log {
		return max(clock, s.last)
	}
	for window := range s.windows {
		clock = max(clock, s.last/window*window)
	}
	return clock
}

// follow returns the subject as the clients' windows count it, and whether that is to be kept
// though nothing is granted.
func (s *modelSubject) follow(c *clientlimit.Clients, now int64) (*modelSubject, bool) {
	next := &modelSubject{last: s.last, windows: make(map[int64][]modelGrant), owned: maps.Clone(s.owned)}
	if next.owned == nil {
		next.owned = make(map[int64]int64)
	}
	counter := c.Algorithm == clientlimit.Counter
	for window, grants := range s.windows {
		if !counter || now/window-s.owned[window]/window < 2 {
			next.windows[window] = slices.Clone(grants)
		}
	}
	own := slices.Clone(c.Kept)
	for _, l := range c.Limits {
		own = append(own, l.Window.Length)
	}
	changed := false
	for _, length := range own {
		window := length.Milliseconds()
		grants, known := s.windows[window]
		switch {
		case !counter:
			grants = s.all()
		case !known && len(s.windows) > 0:
			grants, changed = s.carried(window, now), true
			next.owned[window] = now
		case known && s.last/window > s.owned[window]/window:
			next.owned[window], changed = now, true
		}
		next.windows[window] = slices.Clone(grants)
		if _, owned := next.owned[window]; !owned {
			next.owned[window] = now
		}
	}
	if changed {
		for window := range next.windows {
			if slices.Contains(own, time.Duration(window)*time.Millisecond) {
				next.owned[window] = now
			}
		}
		next.last = now
	}
	return next, changed
}

// all returns every grant: in a log, each window has them.
func (s *modelSubject) all() (all []modelGrant) {
	for _, grants := range s.windows {
		if len(grants) > len(all) {
			all = grants
		}
	}
	return all
}

// carried returns what a counter makes of the grants in its other windows for a new one: as
// late as each sum can have been granted. Of those that know all that is in the window, the one
// that has the least; if none does, the one that has the most.
func (s *modelSubject) carried(length, now int64) []modelGrant {
	var currents, sums, known, knownSums []quota.Units
	for window, grants := range s.windows {
		current, sum := quota.Units(0), quota.Units(0)
		begun := now / window * window
		for _, g := range grants {
			late := now
			if g.ms < begun {
				late = begun - 1
			}
			if g.ms < begun-window {
				continue
			}
			if late/length == now/length {
				current += g.units
			}
			if late/length >= now/length-1 {
				sum += g.units
			}
		}
		currents, sums = append(currents, current), append(sums, sum)
		if window >= length {
			known, knownSums = append(known, current), append(knownSums, sum)
		}
	}
	current, sum := slices.Max(currents), slices.Max(sums)
	if len(known) > 0 {
		current, sum = slices.Min(known), slices.Min(knownSums)
	}
	return []modelGrant{{now/length*length - 1, sum - current}, {now, current}}
}

// used is what a limit counts at an instant.
func (s *modelSubject) used(c *clientlimit.Clients, l quota.Limit, now int64) quota.Units {
	window := l.Window.Length.Milliseconds()
	grants := s.windows[window]
	if c.Algorithm == clientlimit.Counter {
		return counted(grants, window, now)
	}
	sum := quota.Units(0)
	for _, g := range grants {
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
