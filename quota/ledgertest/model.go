package ledgertest

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"quotad/quota"
)

// A Model is a ledger in memory that keeps every entry for ever and works
// everything out from them each time: too slow to use, too simple to be wrong.
type Model struct {
	clock func() time.Time

	mu   sync.Mutex // guards logs
	logs map[string]*modelLog
}

var _ quota.Ledger = (*Model)(nil)

// A modelLog is all that the model knows of a credential.
type modelLog struct {
	last    quota.ID
	entries []*quota.Entry
}

// A question is what is worked out: of a log, as one host's file sees it, at an
// instant. Two hosts whose files differ ask differently of one log.
type question struct {
	*modelLog
	c     *quota.Credential
	clock time.Time // the host's, which callers wait by
	now   time.Time // the log's, never earlier than its newest entry
}

// NewModel returns an empty model on the given clock. Steps back of the clock
// are ignored.
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
	clock := time.UnixMilli(m.clock().UnixMilli()).UTC()
	return question{l, c, clock, time.UnixMilli(max(clock.UnixMilli(), l.last.Ms)).UTC()}, m.mu.Unlock
}

// newest returns the id of the last entry of a credential's log.
func (m *Model) newest(c *quota.Credential) quota.ID {
	q, done := m.about(c)
	defer done()
	return q.last
}

// Acquire implements quota.Ledger.
func (m *Model) Acquire(_ context.Context, c *quota.Credential, asks []quota.Ask) ([]quota.Decision, error) {
	q, done := m.about(c)
	defer done()
	decisions := make([]quota.Decision, len(asks))
	for i, ask := range asks {
		decisions[i] = q.decide(ask)
	}
	return decisions, nil
}

// Peek implements quota.Ledger.
func (m *Model) Peek(_ context.Context, c *quota.Credential, _ []string, charges []quota.Charge, useReserve bool) (quota.Decision, error) {
	q, done := m.about(c)
	defer done()
	return q.fits(charges, useReserve), nil
}

func (q question) decide(ask quota.Ask) quota.Decision {
	if e := q.granted(ask.Key()); e != nil {
		g, _ := e.Grant()
		if g.Operation != ask.Operation || g.Count != ask.Count {
			return quota.Decision{Reason: quota.RequestIDConflict, Detail: "the request id was granted with other arguments"}
		}
		return quota.Decision{
			Replayed: true, GrantID: quota.GrantID(q.c.Name, e.ID),
			Units: quota.Max(ask.Charges), Limits: q.states(ask.Charges),
		}
	}
	d := q.fits(ask.Charges, ask.UseReserve)
	if d.Granted() {
		d.GrantID = quota.GrantID(q.c.Name, q.append(quota.Entry{
			By: ask.Caller.By(), Region: ask.Caller.Region, Charges: ask.Charges,
			Body: quota.Grant{Operation: ask.Operation, Count: ask.Count, Key: ask.Key()},
		}))
		d.Limits = q.states(ask.Charges)
	}
	return d
}

// granted finds the newest grant of a request key that some window still holds.
func (q question) granted(key string) *quota.Entry {
	if key == "" {
		return nil
	}
	for _, e := range slices.Backward(q.entries) {
		if g, _ := e.Grant(); g.Key == key && q.counted(e) {
			return e
		}
	}
	return nil
}

// fits decides without debiting.
func (q question) fits(charges []quota.Charge, useReserve bool) quota.Decision {
	d := quota.Decision{Units: quota.Max(charges), Limits: q.states(charges)}
	for _, charge := range charges {
		if at := q.fitsAt(charge, useReserve); at.After(d.RetryAt) {
			d.Reason, d.Limit = quota.LimitExceeded, charge.Limit
			d.RetryAt, d.RetryAfter = at, at.Sub(q.clock)
		}
	}
	return q.closed(d)
}

// closed refuses what counts against a closed limit.
func (q question) closed(d quota.Decision) quota.Decision {
	latest := time.Time{}
	for _, s := range d.Limits {
		if until := s.Closed.Until; until.After(latest) && !s.DryRun {
			d.Reason, d.Limit, latest = quota.LimitClosed, s.Name, until
		}
	}
	if latest.After(d.RetryAt) {
		d.RetryAt = latest
	}
	if !d.RetryAt.IsZero() {
		d.RetryAfter = d.RetryAt.Sub(q.clock)
	}
	return d
}

// closedIn returns what the newest entry about a limit says of it.
func (q question) closedIn(limit string) quota.Closed {
	for _, e := range slices.Backward(q.entries) {
		b, _ := e.Body.(quota.Changed)
		if b.Limit == limit && b.Change == quota.KindClosing && b.Until.After(q.now) {
			return quota.Closed{Since: e.ID.Time(), Until: b.Until, Says: e.Note, By: e.By}
		}
		if b.Limit == limit {
			return quota.Closed{}
		}
	}
	return quota.Closed{}
}

// ChangeLimit implements quota.Ledger.
func (m *Model) ChangeLimit(_ context.Context, c *quota.Credential, k quota.Change) (bool, error) {
	q, done := m.about(c)
	defer done()
	changed := quota.Changed{Change: k.Kind, Limit: k.Limit, Until: k.Until}
	closed := q.closedIn(k.Limit).Until
	switch {
	case k.Kind == quota.KindOpening:
		if closed.IsZero() {
			return false, nil
		}
	case !k.Until.After(q.now), !k.Until.After(closed):
		return false, nil
	}
	q.append(quota.Entry{Note: k.Note, By: k.Caller.By(), Body: changed})
	return true, nil
}

// fitsAt tries every instant at which something leaves the window.
func (q question) fitsAt(charge quota.Charge, useReserve bool) time.Time {
	i := q.c.Index(charge.Limit)
	limit := q.c.Limits[i]
	budget := limit.Budget(useReserve)
	if limit.DryRun {
		budget = quota.MaxUnits
	}
	if q.used(i, q.now)+charge.Units <= budget {
		return time.Time{}
	}
	if _, end := limit.Window.Bounds(q.now); !end.IsZero() {
		return end
	}
	for at := range q.leaving(limit) {
		if q.used(i, at)+charge.Units <= budget {
			return at
		}
	}
	return q.now.Add(limit.Window.Length) // never: its caller knows
}

// used sums what limit i holds at an instant, now or later.
func (q question) used(i int, at time.Time) quota.Units {
	sum := quota.Units(0)
	for _, e := range q.entries {
		if q.inWindow(i, e, at) {
			sum += q.units(i, e)
		}
	}
	return sum
}

func (q question) inWindow(i int, e *quota.Entry, at time.Time) bool {
	after, _ := q.c.Limits[i].Window.Bounds(at)
	return e.ID.Time().After(after)
}

func (q question) counted(e *quota.Entry) bool {
	for i := range q.c.Limits {
		if q.inWindow(i, e, q.now) {
			return true
		}
	}
	return false
}

// countsJob reports whether a limit counts the calls of a job, or of "@" and a uid.
func countsJob(limit quota.Limit, by string) bool {
	switch {
	case len(limit.Jobs) > 0:
		return slices.Contains(limit.Jobs, by)
	default:
		return !slices.Contains(limit.ExceptJobs, by)
	}
}

// units is what an entry counts in limit i: what it was charged there, else what its
// operation costs its job today; settled as quota.Settlement says; less what was returned.
func (q question) units(i int, e *quota.Entry) quota.Units {
	limit := q.c.Limits[i]
	charge := quota.Units(0)
	g, granted := e.Grant()
	if granted && countsJob(limit, e.By) {
		charge = q.c.Operations[g.Operation].In(limit, g.Operation) * g.Count
	}
	greatest := quota.Units(0)
	for _, c := range e.Charges {
		greatest = max(greatest, c.Units)
		if c.Limit == limit.Name {
			charge = max(0, c.Units)
		}
	}
	if g.Settled && charge >= greatest {
		charge = g.SettledTo
	} else if g.Settled {
		charge = min(charge, g.SettledTo)
	}
	for _, c := range e.GivenBack {
		if c.Limit == limit.Name {
			charge -= min(charge, c.Units)
		}
	}
	return charge
}

func (q question) states(charges []quota.Charge) []quota.LimitState {
	states := make([]quota.LimitState, len(charges))
	for n, charge := range charges {
		i := q.c.Index(charge.Limit)
		closed := q.closedIn(charge.Limit)
		states[n] = quota.LimitState{Limit: q.c.Limits[i], Used: q.used(i, q.now), Cost: charge.Units, Closed: closed}
	}
	return states
}

func (q question) state(i int) quota.LimitState {
	s := quota.LimitState{Limit: q.c.Limits[i], Used: q.used(i, q.now), Closed: q.closedIn(q.c.Limits[i].Name)}
	_, end := s.Window.Bounds(q.now)
	if !end.IsZero() {
		if s.Used > 0 {
			s.NextAt, s.NextUnits = end, s.Used
		}
		return s
	}
	for at := range q.leaving(s.Limit) {
		if freed := s.Used - q.used(i, at); freed > 0 {
			s.NextAt, s.NextUnits = at, freed
			return s
		}
	}
	return s
}

// leaving yields every instant from now on at which something leaves a sliding window.
func (q question) leaving(limit quota.Limit) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		last := q.now
		for _, e := range q.entries {
			if at := e.ID.Time().Add(limit.Window.Length); at.After(last) {
				last = at
				if !yield(at) {
					return
				}
			}
		}
	}
}

// append writes an entry at now.
func (q question) append(e quota.Entry) quota.ID {
	e.ID = quota.ID{Ms: q.now.UnixMilli()}
	if e.ID.Ms == q.last.Ms {
		e.ID.Seq = q.last.Seq + 1
	}
	q.last, q.entries = e.ID, append(q.entries, &e)
	return e.ID
}

// Usage implements quota.Ledger.
func (m *Model) Usage(_ context.Context, c *quota.Credential) (quota.Usage, error) {
	q, done := m.about(c)
	defer done()
	u := quota.Usage{Now: q.now}
	for i := range c.Limits {
		u.Limits = append(u.Limits, q.state(i))
	}
	return u, nil
}

// Log implements quota.Ledger.
func (m *Model) Log(_ context.Context, c *quota.Credential, lq quota.LogQuery) (quota.LogPage, error) {
	q, done := m.about(c)
	defer done()
	var page quota.LogPage
	entries := slices.Clone(q.entries)
	if lq.Newest {
		slices.Reverse(entries)
	}
	for _, e := range entries {
		behind := lq.After.IsZero() || lq.After.Less(e.ID) && !lq.Newest || e.ID.Less(lq.After) && lq.Newest
		if !behind || e.ID.Time().Before(lq.Since) {
			continue
		}
		if len(page.Entries) == lq.Max {
			page.Next = page.Entries[lq.Max-1].ID
			break
		}
		entry := *e
		if g, ok := e.Grant(); ok {
			g.Key = ""
			entry.Body = g
		}
		page.Entries = append(page.Entries, entry)
	}
	return page, nil
}
