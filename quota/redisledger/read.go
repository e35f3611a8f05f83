package redisledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"quotad/quota"
)

// Usage implements quota.Ledger. It writes nothing, unless the account must
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

// Log implements quota.Ledger.
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
	e := quota.Entry{ID: id, At: id.Time(), Kind: quota.KindGrant, Settled: settled != ""}
	e.SettledTo, _ = units(settled)
	granted := "" // the id under which an entry was that was put back behind its place
	for i := 0; i+1 < len(fields); i += 2 {
		value, _ := fields[i+1].(string)
		switch fields[i] {
		case "o":
			e.Operation = value
		case "n":
			e.Count, _ = units(value)
		case "b":
			e.By = value
		case "r":
			e.Region = value
		case "u":
			e.Charges = charges(value)
		case "t":
			readNote(&e, value)
		case "a":
			granted = value
		}
	}
	if at, err := quota.ParseID(granted); err == nil {
		e.At = at.Time()
	}
	return e, nil
}

// charges reads "daily=100 search=1".
func charges(list string) []quota.Charge {
	var recorded []quota.Charge
	for _, pair := range strings.Fields(list) {
		name, value, _ := strings.Cut(pair, "=")
		n, _ := units(value)
		recorded = append(recorded, quota.Charge{Limit: name, Units: n})
	}
	return recorded
}

// noteOf writes what the log is to tell of a correction.
func noteOf(e quota.Entry) string {
	switch e.Kind {
	case quota.KindSettlement:
		return fmt.Sprintf("settle %s %d", e.Grant, e.SettledTo)
	case quota.KindAdjustment:
		return fmt.Sprintf("adjust %s %d %d %s", e.Charges[0].Limit, e.Asked, e.Charges[0].Units, e.Note)
	case quota.KindReset:
		return "reset " + e.Note
	}
	return ""
}

// readNote reads what noteOf and adjust.lua wrote.
func readNote(e *quota.Entry, text string) {
	kind, rest, _ := strings.Cut(text, " ")
	switch kind {
	case "settle":
		grant, to, _ := strings.Cut(rest, " ")
		e.Kind = quota.KindSettlement
		e.Grant, _ = quota.ParseID(grant)
		e.SettledTo, _ = units(to)
	case "adjust":
		parts := append(strings.SplitN(rest, " ", 4), "", "", "", "")
		asked, _ := units(parts[1])
		booked, _ := units(parts[2])
		e.Kind, e.Asked, e.Note = quota.KindAdjustment, int64(asked), parts[3]
		e.Charges = []quota.Charge{{Limit: parts[0], Units: booked}}
	case "reset":
		e.Kind, e.Note = quota.KindReset, rest
	}
}
