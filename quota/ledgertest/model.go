// Package ledgertest holds the contract of quota.Ledger as a test suite that
// every ledger passes, and the naive model that it is compared with.
package ledgertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"quotad/quota"
)

// A Model is a ledger in memory that keeps every entry for ever and sums them
// all for every decision: too slow to use, too simple to be wrong.
type Model struct {
	clock func() time.Time

	mu   sync.Mutex // guards logs
	logs map[string]*modelLog
}

var _ quota.Ledger = (*Model)(nil)

type modelLog struct {
	last    quota.ID
	entries []*modelEntry
	ids     map[string]*modelEntry // by request key
	credits map[string]*modelCredit
}

type modelEntry struct{ quota.Entry }

// modelCredit is what adjustments gave back in a limit. It is used up by the
// debits that leave the window, oldest first.
type modelCredit struct {
	left quota.Units
	out  map[*modelEntry]bool // have left the window, and used up theirs
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

// Acquire implements quota.Ledger.
func (m *Model) Acquire(_ context.Context, c *quota.Credential, asks []quota.Ask) ([]quota.Decision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, now := m.log(c)
	l.useCredits(c, now)
	decisions := make([]quota.Decision, len(asks))
	for i, ask := range asks {
		decisions[i] = l.decide(c, ask, now)
	}
	return decisions, nil
}

// Peek implements quota.Ledger.
func (m *Model) Peek(_ context.Context, c *quota.Credential, _ []string, charges []quota.Charge) (quota.Decision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, now := m.log(c)
	l.useCredits(c, now)
	return l.fits(c, quota.Ask{Charges: charges}, now), nil
}

func (m *Model) log(c *quota.Credential) (*modelLog, time.Time) {
	l := m.logs[c.Name]
	if l == nil {
		l = &modelLog{ids: make(map[string]*modelEntry), credits: make(map[string]*modelCredit)}
		m.logs[c.Name] = l
	}
	return l, time.UnixMilli(max(m.clock().UnixMilli(), l.last.Ms)).UTC()
}

// newest returns the id of the last entry of a credential's log.
func (m *Model) newest(c *quota.Credential) quota.ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, _ := m.log(c)
	return l.last
}

func (l *modelLog) decide(c *quota.Credential, ask quota.Ask, now time.Time) quota.Decision {
	if e := l.ids[ask.Key()]; e != nil && l.counted(c, e, now) {
		if e.Operation != ask.Operation || e.Count != ask.Count {
			return quota.Decision{Reason: quota.RequestIDConflict, Detail: "the request id was granted with other arguments"}
		}
		return quota.Decision{
			Replayed: true, GrantID: quota.GrantID(c.Name, e.ID),
			Units: quota.Max(ask.Charges), Limits: l.states(c, ask.Charges, now),
		}
	}
	d := l.fits(c, ask, now)
	if d.Granted() {
		d.GrantID = quota.GrantID(c.Name, l.debit(ask, now))
	}
	d.Limits = l.states(c, ask.Charges, now)
	return d
}

// fits decides without debiting.
func (l *modelLog) fits(c *quota.Credential, ask quota.Ask, now time.Time) quota.Decision {
	d := quota.Decision{Units: quota.Max(ask.Charges)}
	for _, charge := range ask.Charges {
		if at := l.fitsAt(c, charge, ask.UseReserve, now); at.After(d.RetryAt) {
			d.Reason, d.Limit = quota.LimitExceeded, charge.Limit
			d.RetryAt, d.RetryAfter = at, at.Sub(now)
		}
	}
	d.Limits = l.states(c, ask.Charges, now)
	return d
}

// fitsAt tries every instant at which something leaves the window.
func (l *modelLog) fitsAt(c *quota.Credential, charge quota.Charge, useReserve bool, now time.Time) time.Time {
	i := c.Index(charge.Limit)
	limit := c.Limits[i]
	budget := limit.Budget(useReserve)
	if l.used(c, i, now)+charge.Units <= budget {
		return time.Time{}
	}
	if _, end := limit.Window.Bounds(now); !end.IsZero() {
		return end
	}
	for _, e := range l.entries {
		at := e.ID.Time().Add(limit.Window.Length)
		if at.After(now) && l.used(c, i, at)+charge.Units <= budget {
			return at
		}
	}
	panic(fmt.Sprintf("limit %q never fits %d units", limit.Name, charge.Units))
}

// used sums what limit i holds at an instant, now or later.
func (l *modelLog) used(c *quota.Credential, i int, at time.Time) quota.Units {
	sum, left := quota.Units(0), quota.Units(0)
	if credit := l.credits[c.Limits[i].Name]; credit != nil {
		left = credit.left
		for _, e := range l.entries {
			if !credit.out[e] && !l.inWindow(c, i, e, at) {
				left -= min(left, l.charge(c, i, e))
			}
		}
	}
	for _, e := range l.entries {
		if l.inWindow(c, i, e, at) {
			sum += l.charge(c, i, e)
		}
	}
	return sum - min(left, sum)
}

func (l *modelLog) inWindow(c *quota.Credential, i int, e *modelEntry, at time.Time) bool {
	after, _ := c.Limits[i].Window.Bounds(at)
	return e.ID.Time().After(after)
}

func (l *modelLog) counted(c *quota.Credential, e *modelEntry, now time.Time) bool {
	for i := range c.Limits {
		if l.inWindow(c, i, e, now) {
			return true
		}
	}
	return false
}

// charge is what an entry counts in limit i: what was recorded, else what the
// operation costs today; settled as quota.Settlement says.
func (l *modelLog) charge(c *quota.Credential, i int, e *modelEntry) quota.Units {
	limit := c.Limits[i]
	for _, charge := range e.Charges {
		if charge.Limit == limit.Name {
			return max(0, e.settle(charge.Units))
		}
	}
	return e.settle(c.Operations[e.Operation].In(limit, e.Operation) * e.Count)
}

func (e *modelEntry) settle(units quota.Units) quota.Units {
	greatest := quota.Units(0)
	for _, charge := range e.Charges {
		greatest = max(greatest, charge.Units)
	}
	switch {
	case !e.Settled || e.Kind != quota.KindGrant:
		return units
	case units >= greatest:
		return e.SettledTo
	default:
		return min(units, e.SettledTo)
	}
}

// useCredits lets the debits that have left a window use up its credit.
func (l *modelLog) useCredits(c *quota.Credential, now time.Time) {
	for i, limit := range c.Limits {
		credit := l.credits[limit.Name]
		if credit == nil {
			continue
		}
		for _, e := range l.entries {
			out := !l.inWindow(c, i, e, now)
			if out && !credit.out[e] {
				credit.left -= min(credit.left, l.charge(c, i, e))
			}
			credit.out[e] = out
		}
	}
}

func (l *modelLog) states(c *quota.Credential, charges []quota.Charge, now time.Time) []quota.LimitState {
	states := make([]quota.LimitState, len(charges))
	for i, charge := range charges {
		n := c.Index(charge.Limit)
		states[i] = quota.LimitState{Limit: c.Limits[n], Used: l.used(c, n, now), Cost: charge.Units}
	}
	return states
}

func (l *modelLog) state(c *quota.Credential, i int, now time.Time) quota.LimitState {
	s := quota.LimitState{Limit: c.Limits[i], Used: l.used(c, i, now)}
	_, end := s.Window.Bounds(now)
	if !end.IsZero() {
		if s.Used > 0 {
			s.NextAt, s.NextUnits = end, s.Used
		}
		return s
	}
	for _, e := range l.entries {
		at := e.ID.Time().Add(s.Window.Length)
		if !at.After(now) {
			continue
		}
		if freed := s.Used - l.used(c, i, at); freed > 0 {
			s.NextAt, s.NextUnits = at, freed
			return s
		}
	}
	return s
}

func (l *modelLog) debit(ask quota.Ask, now time.Time) quota.ID {
	e := l.append(now)
	e.Entry = quota.NewEntry(ask, e.ID)
	if key := ask.Key(); key != "" {
		l.ids[key] = e
	}
	return e.ID
}

func (l *modelLog) append(now time.Time) *modelEntry {
	id := quota.ID{Ms: now.UnixMilli()}
	if id.Ms == l.last.Ms {
		id.Seq = l.last.Seq + 1
	}
	e := &modelEntry{Entry: quota.Entry{ID: id, At: now}}
	l.last, l.entries = id, append(l.entries, e)
	return e
}

// Settle implements quota.Ledger.
func (m *Model) Settle(_ context.Context, c *quota.Credential, s quota.Settlement) (quota.Decision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, now := m.log(c)
	i := slices.IndexFunc(l.entries, func(e *modelEntry) bool { return e.ID == s.Grant && e.Kind == quota.KindGrant })
	if i < 0 || !l.counted(c, l.entries[i], now) {
		return quota.Decision{Reason: quota.UnknownGrant}, nil
	}
	l.useCredits(c, now)
	e := l.entries[i]
	if !e.Settled || e.SettledTo != s.Units {
		e.Settled, e.SettledTo = true, s.Units
		trace := l.append(now)
		trace.Kind, trace.By, trace.Grant, trace.SettledTo = quota.KindSettlement, s.Caller.By(), s.Grant, s.Units
	}
	for i, limit := range c.Limits {
		if credit := l.credits[limit.Name]; credit != nil {
			credit.left = min(credit.left, l.sum(c, i, now))
		}
	}
	return quota.Decision{GrantID: quota.GrantID(c.Name, s.Grant), Units: s.Units, Limits: l.states(c, l.charged(c, e), now)}, nil
}

// charged returns what an entry was charged in the limits there are.
func (l *modelLog) charged(c *quota.Credential, e *modelEntry) []quota.Charge {
	var charges []quota.Charge
	for _, limit := range c.Limits {
		for _, charge := range e.Charges {
			if charge.Limit == limit.Name {
				charges = append(charges, charge)
			}
		}
	}
	return charges
}

func (l *modelLog) sum(c *quota.Credential, i int, now time.Time) quota.Units {
	sum := quota.Units(0)
	for _, e := range l.entries {
		if l.inWindow(c, i, e, now) {
			sum += l.charge(c, i, e)
		}
	}
	return sum
}

// Adjust implements quota.Ledger.
func (m *Model) Adjust(_ context.Context, c *quota.Credential, a quota.Adjustment) (quota.Decision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, now := m.log(c)
	i := slices.IndexFunc(c.Limits, func(limit quota.Limit) bool { return limit.Name == a.Limit })
	l.useCredits(c, now)
	given := min(quota.Units(-min(a.Units, 0)), l.used(c, i, now))
	e := l.append(now)
	e.Kind, e.By, e.Note, e.Asked = quota.KindAdjustment, a.Caller.By(), a.Note, a.Units
	e.Charges = []quota.Charge{{Limit: a.Limit, Units: max(quota.Units(a.Units), -given)}}
	if a.Units > 0 {
		return quota.Decision{Units: quota.Units(a.Units)}, nil
	}
	if l.credits[a.Limit] == nil {
		l.credits[a.Limit] = &modelCredit{out: make(map[*modelEntry]bool)}
		l.useCredits(c, now)
	}
	l.credits[a.Limit].left += given
	return quota.Decision{Units: given}, nil
}

// Reset implements quota.Ledger.
func (m *Model) Reset(_ context.Context, c *quota.Credential, by quota.Caller, note string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, now := m.log(c)
	last := l.last
	*l = modelLog{last: last, ids: make(map[string]*modelEntry), credits: make(map[string]*modelCredit)}
	e := l.append(now)
	e.Kind, e.By, e.Note = quota.KindReset, by.By(), note
	return nil
}

// Usage implements quota.Ledger.
func (m *Model) Usage(_ context.Context, c *quota.Credential) (quota.Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, now := m.log(c)
	u := quota.Usage{Now: now}
	for i := range c.Limits {
		u.Limits = append(u.Limits, l.state(c, i, now))
	}
	return u, nil
}

// Log implements quota.Ledger.
func (m *Model) Log(_ context.Context, c *quota.Credential, q quota.LogQuery) (quota.LogPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, _ := m.log(c)
	var page quota.LogPage
	entries := slices.Clone(l.entries)
	if q.Newest {
		slices.Reverse(entries)
	}
	for _, e := range entries {
		behind := q.After.IsZero() || q.After.Less(e.ID) && !q.Newest || e.ID.Less(q.After) && q.Newest
		if !behind || e.At.Before(q.Since) {
			continue
		}
		if len(page.Entries) == q.Most {
			page.Next = page.Entries[q.Most-1].ID
			break
		}
		entry := e.Entry
		entry.Key = ""
		page.Entries = append(page.Entries, entry)
	}
	return page, nil
}
