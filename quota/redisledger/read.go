package redisledger

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
)

// Usage implements quota.Ledger. It writes nothing, unless the view must count first,
// or more has left the windows than one call may pass over.
func (l *Ledger) Usage(ctx context.Context, c *quota.Credential) (quota.Usage, error) {
	a := l.account(c.Name)
	if down := a.whyDown(); down != nil {
		return quota.Usage{}, down
	}
	return a.usage(ctx, c)
}

func (a *account) usage(ctx context.Context, c *quota.Credential) (quota.Usage, error) {
	r, err := a.do(ctx, c, verb{script: a.ledger.scripts.usage})
	if err != nil {
		return quota.Usage{}, err
	}
	u := quota.Usage{Now: r.now}
	if len(r.rest) != 1+4*len(c.Limits) {
		return u, errReply
	}
	for i, limit := range c.Limits {
		var row [4]int64
		for j := range row {
			v, ok := units(r.rest[1+4*i+j])
			if !ok {
				return u, errReply
			}
			row[j] = int64(v)
		}
		u.Limits = append(u.Limits, quota.LimitState{
			Limit:      limit,
			Used:       quota.Units(row[0]),
			CatchingUp: instant(row[1]),
			NextAt:     instant(row[2]),
			NextUnits:  quota.Units(row[3]),
			Closed:     r.closed[limit.Name],
			Lifted:     limit.LiftedAt(r.now),
		})
	}
	a.hearUsage(c, u, parseDaemons(asText(r.rest[0])))
	return u, nil
}

// instant is the zero time for 0.
func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Log implements quota.Ledger.
func (l *Ledger) Log(ctx context.Context, c *quota.Credential, q quota.LogQuery) (quota.LogPage, error) {
	if down := l.account(c.Name).whyDown(); down != nil {
		return quota.LogPage{}, down
	}
	keys := l.keys(c.Name, "")
	from, to := "-", "+"
	if !q.Since.IsZero() {
		from = quota.ID{Ms: q.Since.UnixMilli()}.String()
	}
	switch {
	case q.After.IsZero():
	case q.Newest:
		to = "(" + q.After.String()
	case !q.After.Time().Before(q.Since):
		from = "(" + q.After.String()
	}
	var messages []redis.XMessage
	err := repeat(ctx, func() (err error) {
		if q.Newest {
			messages, err = l.client.XRevRangeN(ctx, keys[1], to, from, int64(q.Most)+1).Result()
		} else {
			messages, err = l.client.XRangeN(ctx, keys[1], from, to, int64(q.Most)+1).Result()
		}
		return err
	})
	if err != nil {
		return quota.LogPage{}, err
	}
	return l.page(ctx, keys[2], messages, q.Most)
}

// page reads the entries of a page, with what was corrected of them.
func (l *Ledger) page(ctx context.Context, settled string, messages []redis.XMessage, most int) (page quota.LogPage, err error) {
	more := len(messages) > most
	messages = messages[:min(most, len(messages))]
	if len(messages) == 0 {
		return page, nil
	}
	ids := make([]string, len(messages))
	for i, m := range messages {
		ids[i] = m.ID
	}
	var states []any
	err = repeat(ctx, func() (err error) {
		states, err = l.client.HMGet(ctx, settled, ids...).Result()
		return err
	})
	if err != nil {
		return page, err
	}
	for i, m := range messages {
		id, err := quota.ParseID(m.ID)
		if err != nil {
			return page, errReply
		}
		text, _ := m.Values["e"].(string)
		e, err := parseEntry(id, text)
		if err != nil {
			return page, err
		}
		if granted, err := quota.ParseID(asText(m.Values["a"])); err == nil {
			e.At = granted.Time()
		}
		correct(&e, asText(states[i]))
		page.Entries = append(page.Entries, e)
	}
	if more {
		page.Next = page.Entries[most-1].ID
	}
	return page, nil
}

func asText(value any) string {
	text, _ := value.(string)
	return text
}
