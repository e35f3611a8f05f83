package slidinglog

import (
	"cmp"
	"context"
	"errors"
	"time"

	"quotad/quota"
)

// Acquire implements quota.Ledger.
func (l *Ledger) Acquire(ctx context.Context, c *quota.Credential, ask quota.Ask) (quota.Decision, error) {
	one, id := l.find(c), ask.ID()
	asks := call{id: string(id), text: textOf(entryOf(ask))}
	asks.at = func(now time.Time) []quota.Check { return c.Checks(ask.Charges, ask.UseReserve, now) }
	r, err := one.ask(ctx, &asks)
	switch {
	case one.away(err):
		return one.acquireOffline(ctx, c, ask, err)
	case err != nil:
		return quota.Decision{}, err
	case r.word == again:
		e, _ := parse(asks.id, r.at, r.text)
		d, _ := one.withLimits(ctx, c, repeated(c, ask, e), ask.Charges)
		return d, nil
	}
	d := decide(c, asks.checks, r)
	if r.word == granted {
		one.keepUsage(d)
		e, _ := parse(asks.id, r.at, r.text)
		d.GrantID, d.Would = quota.GrantID(c.Name, id), e.Would
	}
	return d, nil
}

// entryOf returns the entry of a grant.
func entryOf(ask quota.Ask) quota.Entry {
	return quota.Entry{By: ask.Caller.By(), Region: ask.Caller.Region, Charges: ask.Charges,
		Body: quota.Grant{Operation: ask.Operation, Count: ask.Count}}
}

// repeated decides an ask whose id is known: it was granted, unless the entry is another request's.
func repeated(c *quota.Credential, ask quota.Ask, e quota.Entry) quota.Decision {
	g, isGrant := e.Grant()
	if !isGrant || g.Operation != ask.Operation || g.Count != ask.Count || e.By != ask.Caller.By() {
		return quota.Conflict(g.Operation, g.Count)
	}
	return quota.Decision{GrantID: quota.GrantID(c.Name, e.ID), Replayed: true, Outage: e.Outage, Units: quota.Max(e.Asked())}
}

// withLimits adds the state of the limits of some charges. After an error the decision stands, without them.
func (l *log) withLimits(ctx context.Context, c *quota.Credential, d quota.Decision, charges []quota.Charge) (quota.Decision, error) {
	u, _, err := l.look(ctx, c)
	for _, charge := range charges {
		if i := c.Index(charge.Limit); i >= 0 && err == nil {
			u.Limits[i].Cost = charge.Units
			d.Limits = append(d.Limits, u.Limits[i])
		}
	}
	return d, err
}

// decide words an answer: granted, fits or denied.
func decide(c *quota.Credential, checks []quota.Check, r reply) quota.Decision {
	d := quota.Decision{Now: atMicros(r.at)}
	retry, longest := int64(0), int64(0)
	for i, k := range checks {
		limit, _ := c.Limit(k.Limit)
		is := r.limits[i]
		d.Limits = append(d.Limits, quota.LimitState{Limit: limit, Used: is.used, Cost: k.Cost, Closed: is.closed})
		d.Units = max(d.Units, k.Cost)
		if r.word != denied || k.Observes || is.retry == 0 {
			continue
		}
		retry = max(retry, is.retry)
		closed := is.closed.Until
		switch {
		case !closed.IsZero() && (d.Reason != quota.LimitClosed || closed.UnixMicro() > longest):
			d.Reason, d.Limit, longest = quota.LimitClosed, k.Limit, closed.UnixMicro()
		case closed.IsZero() && d.Reason != quota.LimitClosed && is.retry > longest:
			d.Reason, d.Limit, longest = quota.LimitExceeded, k.Limit, is.retry
		}
	}
	if r.word == denied {
		d.RetryAt = upToMillis(retry)
		wait := max(d.RetryAt.Sub(atMicros(r.time)), 1) // a log that is ahead of its clock waits for that
		d.RetryAfter = (wait + time.Millisecond - 1).Truncate(time.Millisecond)
	}
	return d
}

// Peek implements quota.Ledger.
func (l *Ledger) Peek(ctx context.Context, c *quota.Credential, operations []string, charges []quota.Charge, useReserve bool) (quota.Decision, error) {
	one := l.find(c)
	looks := call{at: func(now time.Time) []quota.Check { return c.Checks(charges, useReserve, now) }}
	r, err := one.ask(ctx, &looks)
	if err == nil {
		one.mu.Lock()
		err = one.down // it can be read, but would not grant anything
		one.mu.Unlock()
	}
	switch {
	case one.away(err):
		return one.peekOffline(c, operations, charges, useReserve, err)
	case err != nil:
		return quota.Decision{}, err
	}
	return decide(c, looks.checks, r), nil
}

// Usage implements quota.Ledger.
func (l *Ledger) Usage(ctx context.Context, c *quota.Credential) (quota.Usage, error) {
	one := l.find(c)
	u, r, err := one.look(ctx, c)
	if err == nil {
		err = one.next(ctx, &u, r)
	}
	if err != nil && (outage(err) || errors.Is(err, quota.ErrRecovering)) {
		return one.usageOffline(c, err)
	}
	return u, err
}

// look returns what all limits hold, and keeps it for an outage.
func (l *log) look(ctx context.Context, c *quota.Credential) (u quota.Usage, r reply, err error) {
	asks := call{at: c.Looks}
	if r, err = l.ask(ctx, &asks); err == nil {
		d := decide(c, asks.checks, r)
		u = quota.Usage{Now: d.Now, Limits: d.Limits}
		l.keepUsage(d)
	}
	return u, r, err
}

// next fills in when the next debit leaves each window, by the answer to a look.
func (l *log) next(ctx context.Context, u *quota.Usage, r reply) error {
	for i := range u.Limits {
		s := &u.Limits[i]
		_, ends := s.Window.Bounds(u.Now)
		switch {
		case s.Used == 0:
		case s.Window.Restarts():
			s.NextAt, s.NextUnits = ends, s.Used
		default:
			k := quota.Check{Limit: s.Name, Length: s.Window.Length}
			at, units, err := l.walk(ctx, k, r.limits[i].from, 1)
			if err != nil {
				return err
			}
			s.NextAt, s.NextUnits = upToMillis(at), quota.Units(units)
		}
	}
	return nil
}

// upToMillis returns a time in whole milliseconds, rounded up.
func upToMillis(us int64) time.Time { return time.UnixMilli((us + 999) / 1000).UTC() }

// Log implements quota.Ledger. While the engine is away it is this host's journal.
func (l *Ledger) Log(ctx context.Context, c *quota.Credential, q quota.LogQuery) (page quota.LogPage, err error) {
	after, before, most := int64(0), any(""), cmp.Or(q.Max, quota.MaxLogPage)
	if !q.Since.IsZero() {
		after = q.Since.UnixMicro() - 1 // nothing older
	}
	switch {
	case q.Newest && q.After.IsZero():
		before = int64(quota.MaxUnits)
	case q.Newest:
		before = q.After.UnixMicro()
	case !q.After.IsZero():
		after = max(after, q.After.UnixMicro())
	}
	records, err := l.find(c).read(ctx, after, before, most+1) // one more, to know whether others follow
	if len(records) > most {
		records = records[:most]
		page.Next = atMicros(records[most-1].At)
	}
	for _, r := range records {
		if e, ok := parse(r.ID, r.At, r.Text); ok {
			page.Entries = append(page.Entries, e)
		}
	}
	return page, err
}

// Entry implements quota.Ledger.
func (l *Ledger) Entry(ctx context.Context, c *quota.Credential, id quota.ID) (e quota.Entry, ok bool, err error) {
	records, err := l.find(c).read(ctx, 0, "", 1, string(id))
	if len(records) > 0 {
		e, ok = parse(records[0].ID, records[0].At, records[0].Text)
	}
	return e, ok, err
}
