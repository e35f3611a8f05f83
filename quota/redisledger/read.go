package redisledger

import (
	"context"
	"strings"
	"time"

	"quotad/quota"
)

// Usage implements quota.Reader. It writes nothing, unless the account must
// catch up first, or more has left the windows than one call may pass over.
func (l *Ledger) Usage(ctx context.Context, c *quota.Credential) (quota.Usage, error) {
	r, err := l.do(ctx, c, verb{script: l.scripts.usage, name: l.call()})
	if err != nil {
		return quota.Usage{}, err
	}
	return usage(c, r)
}

func usage(c *quota.Credential, r reply) (quota.Usage, error) {
	u := quota.Usage{Now: r.now}
	if len(r.rest) != 4*len(c.Limits) {
		return u, errReply
	}
	for i, limit := range c.Limits {
		var row [4]int64
		for j := range row {
			v, ok := units(r.rest[4*i+j])
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
		})
	}
	return u, nil
}

// instant is the zero time for 0.
func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Log implements quota.Reader.
func (l *Ledger) Log(ctx context.Context, c *quota.Credential, q quota.LogQuery) (quota.LogPage, error) {
	after := ""
	if !q.After.IsZero() {
		after = q.After.String()
	}
	since := int64(0)
	if !q.Since.IsZero() {
		since = q.Since.UnixMilli()
	}
	keys := l.keys(c.Name)
	values, err := l.run(ctx, l.scripts.log, keys[1:3], []any{after, since, flag(q.Newest), q.Most + 1})
	if err != nil {
		return quota.LogPage{}, err
	}
	var page quota.LogPage
	for i := 0; i+2 < len(values); i += 3 {
		e, err := entry(values[i : i+3])
		if err != nil {
			return page, err
		}
		page.Entries = append(page.Entries, e)
	}
	if len(page.Entries) > q.Most {
		page.Entries = page.Entries[:q.Most]
		page.Next = page.Entries[q.Most-1].ID
	}
	return page, nil
}

// entry reads an entry's id, its fields and what it was settled to.
func entry(row []any) (quota.Entry, error) {
	text, ok1 := row[0].(string)
	fields, ok2 := row[1].([]any)
	settled, ok3 := row[2].(string)
	id, err := quota.ParseID(text)
	if !ok1 || !ok2 || !ok3 || err != nil {
		return quota.Entry{}, errReply
	}
	r := quota.Record{Debit: quota.Debit{ID: id, Settled: settled != ""}}
	r.SettledTo, _ = units(settled)
	granted := "" // the id under which an entry was that was put back behind its place
	for i := 0; i+1 < len(fields); i += 2 {
		value, _ := fields[i+1].(string)
		switch fields[i] {
		case "o":
			r.Operation = value
		case "n":
			r.Count, _ = units(value)
		case "b":
			r.By = value
		case "r":
			r.Region = value
		case "u":
			r.Recorded = charges(value)
		case "t":
			r.Note = value
		case "a":
			granted = value
		}
	}
	e := r.Entry()
	if at, err := quota.ParseID(granted); err == nil {
		e.At = at.Time()
	}
	return e, nil
}

// charges reads "daily=100 search=1".
func charges(list string) []quota.Recorded {
	var recorded []quota.Recorded
	for _, pair := range strings.Fields(list) {
		name, value, _ := strings.Cut(pair, "=")
		n, _ := units(value)
		recorded = append(recorded, quota.Recorded{Limit: name, Units: n})
	}
	return recorded
}
