package ledgertest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"quotad/quota"
)

// A Model is a ledger in memory that keeps every entry for ever and works everything out from them each time: too
// slow to use, too simple to be wrong.
type Model struct {
	clock func() time.Time

	mu   sync.Mutex // guards logs
	logs map[string]*modelLog
}

var _ quota.Ledger = (*Model)(nil)

// A modelLog is all that the model knows of a credential: its entries, by their times.
type modelLog struct{ entries []*quota.Entry }

// A question is what is worked out: of a log, as one host's file sees it, at an instant. Two hosts whose files differ
// ask differently of one log.
type question struct {
	*modelLog
	c     *quota.Credential
	clock time.Time // the ledger's, in whole µs
	now   time.Time // later than the newest entry
	reset time.Time // the last one: what is older does not count
}

// NewModel returns an empty model on the given clock.
func NewModel(clock func() time.Time) *Model {
	return &Model{clock: clock, logs: make(map[string]*modelLog)}
}

// Close does nothing.
func (m *Model) Close() error { return nil }

// Health is always well.
func (m *Model) Health(context.Context) quota.Health {
	return quota.Health{Backend: "model", State: "ok", Reachable: true}
}

// about begins a question, with the model locked; done ends it.
func (m *Model) about(c *quota.Credential) (q question, done func()) {
	m.mu.Lock()
	l := m.logs[c.Name]
	if l == nil {
		l = &modelLog{}
		m.logs[c.Name] = l
	}
	clock := time.UnixMicro(m.clock().UnixMicro()).UTC()
	q = question{modelLog: l, c: c, clock: clock, now: clock}
	for _, e := range l.entries {
		if e.Kind() == quota.KindReset {
			q.reset = e.At
		}
	}
	if n := len(l.entries); n > 0 && !clock.After(l.entries[n-1].At) {
		q.now = l.entries[n-1].At.Add(time.Microsecond)
	}
	return q, m.mu.Unlock
}

// Acquire implements quota.Ledger.
func (m *Model) Acquire(_ context.Context, c *quota.Credential, ask quota.Ask) (quota.Decision, error) {
	q, done := m.about(c)
	defer done()
	id := ask.ID()
	if e := q.find(id); e != nil && e.At.After(q.now.Add(-c.Keeps())) {
		g, _ := e.Grant()
		if g.Operation != ask.Operation || g.Count != ask.Count || e.By != ask.Caller.By() {
			return quota.Conflict(g.Operation, g.Count), nil
		}
		return quota.Decision{Replayed: true, GrantID: quota.GrantID(c.Name, id), Units: quota.Max(e.Asked()),
			Limits: q.states(ask.Charges)}, nil
	}
	d := q.decide(ask.Charges, ask.UseReserve)
	if !d.Granted() {
		return d, nil
	}
	for _, charge := range ask.Charges {
		limit, _ := c.Limit(charge.Limit)
		full := q.used(limit, q.now)+charge.Units > limit.Budget(ask.UseReserve)
		if limit.DryRun && (full || !q.closed(limit.Name).IsZero()) {
			d.Would = append(d.Would, limit.Name)
		}
	}
	q.append(quota.Entry{ID: id, By: ask.Caller.By(), Region: ask.Caller.Region, Charges: ask.Charges, Would: d.Would,
		Body: quota.Grant{Operation: ask.Operation, Count: ask.Count}})
	return q.granted(d, id, ask.Charges), nil
}

// granted completes a decision about an entry that is in the log now.
func (q question) granted(d quota.Decision, id quota.ID, charges []quota.Charge) quota.Decision {
	d.GrantID, d.Limits = quota.GrantID(q.c.Name, id), q.states(charges)
	return d
}

// Peek implements quota.Ledger.
func (m *Model) Peek(_ context.Context, c *quota.Credential, _ []string, charges []quota.Charge, useReserve bool) (
	quota.Decision, error) {
	q, done := m.about(c)
	defer done()
	return q.decide(charges, useReserve), nil
}

// decide decides without debiting.
func (q question) decide(charges []quota.Charge, useReserve bool) quota.Decision {
	d := quota.Decision{Units: quota.Max(charges), Limits: q.states(charges), Now: q.now}
	var until, longest time.Time
	for _, charge := range charges {
		limit, _ := q.c.Limit(charge.Limit)
		if limit.DryRun {
			continue
		}
		closed := q.closed(limit.Name).Until
		at := quota.Later(closed, q.fitsAt(limit, charge.Units, useReserve))
		until = quota.Later(until, at)
		switch {
		case at.IsZero():
		case !closed.IsZero() && (d.Reason != quota.LimitClosed || closed.After(longest)):
			d.Reason, d.Limit, longest = quota.LimitClosed, limit.Name, closed
		case closed.IsZero() && d.Reason != quota.LimitClosed && at.After(longest):
			d.Reason, d.Limit, longest = quota.LimitExceeded, limit.Name, at
		}
	}
	if !until.IsZero() {
		d.RetryAt = inMillis(until)
		d.RetryAfter = (d.RetryAt.Sub(q.clock) + time.Millisecond - 1).Truncate(time.Millisecond)
	}
	return d
}

// inMillis rounds a time up to whole milliseconds.
func inMillis(t time.Time) time.Time { return time.UnixMilli((t.UnixMicro() + 999) / 1000).UTC() }

// fitsAt tries every instant at which something leaves the window; zero: it fits now.
func (q question) fitsAt(limit quota.Limit, units quota.Units, useReserve bool) time.Time {
	fits := func(at time.Time) bool { return q.used(limit, at)+units <= limit.Budget(useReserve) }
	if fits(q.now) {
		return time.Time{}
	}
	if _, end := limit.Window.Bounds(q.now); !end.IsZero() {
		return end
	}
	for _, e := range q.entries {
		if at := e.At.Add(limit.Window.Length); at.After(q.now) && fits(at) {
			return at
		}
	}
	return q.now.Add(limit.Window.Length) // never: its caller knows
}

// used sums what a limit holds at an instant, now or later.
func (q question) used(limit quota.Limit, at time.Time) (sum quota.Units) {
	for _, e := range q.entries {
		if q.counts(limit, e, at) {
			units, _ := quota.ChargeIn(e.Charges, limit.Name)
			sum += units
		}
	}
	return sum
}

// counts reports whether a limit's window holds an entry at an instant.
func (q question) counts(limit quota.Limit, e *quota.Entry, at time.Time) bool {
	after, _ := limit.Window.Bounds(at)
	return e.At.After(after) && e.At.After(q.reset)
}

// closed returns what the newest entry about a limit says of it: a closing that is shorter than the one in effect is
// not written.
func (q question) closed(limit string) quota.Closed {
	for _, e := range slices.Backward(q.entries) {
		b, changes := e.Body.(quota.Changed)
		switch {
		case e.Kind() == quota.KindReset:
			return quota.Closed{}
		case changes && b.Limit == limit:
			return quota.Closed{Since: e.At, Until: b.Until, Says: e.Note, By: e.By}.At(q.now)
		}
	}
	return quota.Closed{}
}

func (q question) states(charges []quota.Charge) (states []quota.LimitState) {
	for _, charge := range charges {
		if limit, found := q.c.Limit(charge.Limit); found {
			states = append(states, quota.LimitState{Limit: limit, Used: q.used(limit, q.now), Cost: charge.Units,
				Closed: q.closed(limit.Name)})
		}
	}
	return states
}

// find returns the newest entry of an id.
func (q question) find(id quota.ID) *quota.Entry {
	for _, e := range slices.Backward(q.entries) {
		if e.ID == id {
			return e
		}
	}
	return nil
}

// append writes an entry at now.
func (q question) append(e quota.Entry) quota.ID {
	e.ID, e.At = cmp.Or(e.ID, quota.NewID()), q.now
	q.modelLog.entries = append(q.entries, &e)
	return e.ID
}

// name gives the newest entry another id.
func (m *Model) name(c *quota.Credential, id quota.ID) {
	q, done := m.about(c)
	defer done()
	q.entries[len(q.entries)-1].ID = id
}

// Usage implements quota.Ledger.
func (m *Model) Usage(_ context.Context, c *quota.Credential) (quota.Usage, error) {
	q, done := m.about(c)
	defer done()
	u := quota.Usage{Now: q.now}
	for _, limit := range c.Limits {
		s := quota.LimitState{Limit: limit, Used: q.used(limit, q.now), Closed: q.closed(limit.Name)}
		q.next(&s)
		u.Limits = append(u.Limits, s)
	}
	return u, nil
}

// next fills in when something leaves a limit's window.
func (q question) next(s *quota.LimitState) {
	if s.Used == 0 {
		return
	}
	if _, end := s.Window.Bounds(q.now); !end.IsZero() {
		s.NextAt, s.NextUnits = end, s.Used
		return
	}
	for _, e := range q.entries {
		if units, _ := quota.ChargeIn(e.Charges, s.Name); units > 0 && q.counts(s.Limit, e, q.now) {
			s.NextAt, s.NextUnits = inMillis(e.At.Add(s.Window.Length)), units
			return
		}
	}
}

// Log implements quota.Ledger.
func (m *Model) Log(_ context.Context, c *quota.Credential, lq quota.LogQuery) (page quota.LogPage, err error) {
	q, done := m.about(c)
	defer done()
	entries := slices.Clone(q.entries)
	if lq.Newest {
		slices.Reverse(entries)
	}
	most := cmp.Or(lq.Max, quota.MaxLogPage)
	for _, e := range entries {
		follows := lq.After.IsZero() || e.At.After(lq.After) != lq.Newest && !e.At.Equal(lq.After)
		if !follows || e.At.Before(lq.Since) {
			continue
		}
		if len(page.Entries) == most {
			page.Next = page.Entries[most-1].At
			break
		}
		page.Entries = append(page.Entries, *e)
	}
	return page, nil
}

// Entry implements quota.Ledger.
func (m *Model) Entry(_ context.Context, c *quota.Credential, id quota.ID) (e quota.Entry, ok bool, err error) {
	q, done := m.about(c)
	defer done()
	if found := q.find(id); found != nil {
		return *found, true, nil
	}
	return e, false, nil
}
