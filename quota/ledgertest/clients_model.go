package ledgertest

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

// A clientModel does what clients do: it keeps every grant, and sums them all for each decision. When something fits
// it finds by trying.
type clientModel struct {
	clock    func() time.Time
	subjects map[string]*modelSubject // by the clients, their windows and the name
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

func (m *clientModel) ask(c *clientlimit.Clients, subject string, units quota.Units) quota.Decision {
	clock := m.clock().UnixMilli()
	s := m.subject(c, subject)
	now := s.now(c, clock)
	d := quota.Decision{Units: units, Now: time.UnixMilli(clock).UTC(), Limits: s.states(c, now)}
	for _, l := range c.Limits {
		if units > l.Units && !l.DryRun {
			never := quota.NeverFits(units, l.Name, l.Units)
			never.Now, never.Limits = d.Now, d.Limits
			return charged(never)
		}
	}
	for i, l := range c.Limits {
		if room := l.Units - units; d.Limits[i].Used > room && !l.DryRun {
			if at := time.UnixMilli(s.falls(c, l, now, room)).UTC(); at.After(d.RetryAt) {
				d.Reason, d.Limit, d.RetryAt, d.RetryAfter = quota.LimitExceeded, l.Name, at, at.Sub(d.Now)
			}
		}
	}
	if !d.Granted() {
		return charged(d)
	}
	s.grants, s.last = append(s.grants, modelGrant{now, units}), now
	m.subjects[recordOf(c, subject)] = s
	d.Limits = s.states(c, now)
	return d
}

// charged returns a refusal with what was asked for in each limit.
func charged(d quota.Decision) quota.Decision {
	for i := range d.Limits {
		d.Limits[i].Cost = d.Units
	}
	return d
}

func (m *clientModel) usage(c *clientlimit.Clients, subject string) quota.Usage {
	clock := m.clock().UnixMilli()
	s := m.subject(c, subject)
	return quota.Usage{Now: time.UnixMilli(clock).UTC(), Limits: s.states(c, s.now(c, clock))}
}

func (m *clientModel) reset(c *clientlimit.Clients, subject string) {
	delete(m.subjects, recordOf(c, subject))
}

// recordOf names what counts together.
func recordOf(c *clientlimit.Clients, subject string) string {
	var windows []time.Duration
	for _, l := range c.Limits {
		windows = append(windows, l.Window.Length)
	}
	slices.Sort(windows)
	return fmt.Sprint(c.Name, c.Algorithm, windows, subject)
}

func (m *clientModel) subject(c *clientlimit.Clients, name string) *modelSubject {
	if s := m.subjects[recordOf(c, name)]; s != nil {
		return s
	}
	return &modelSubject{limits: c.Limits}
}

// ends reports whether, by the time that the clock shows, a subject's record may be gone
// that counts something at an earlier time.
func (m *clientModel) ends(earlier, clock time.Time) bool {
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
