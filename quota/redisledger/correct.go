package redisledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"quotad/quota"
)

// Settle implements quota.Ledger.
func (l *Ledger) Settle(ctx context.Context, c *quota.Credential, s quota.Settlement) (quota.Decision, error) {
	note := noteOf(quota.Entry{Kind: quota.KindSettlement, Grant: s.Grant, SettledTo: s.Units})
	args := []any{s.Grant.String(), int64(s.Units), s.Caller.By(), s.Caller.Region, note}
	r, err := l.do(ctx, c, verb{script: l.scripts.settle, name: l.call(), args: args})
	if err != nil {
		return quota.Decision{}, err
	}
	grant := quota.GrantID(c.Name, s.Grant)
	switch r.status {
	case "unknown":
		return quota.Gone(grant), nil
	case "overflow":
		return overflow(), nil
	}
	d := quota.Decision{GrantID: grant, Units: s.Units}
	if len(r.rest) != 2*len(c.Limits) {
		return d, errReply
	}
	for i, limit := range c.Limits {
		charged, ok1 := units(r.rest[2*i])
		used, ok2 := units(r.rest[2*i+1])
		if !ok1 || !ok2 {
			return d, errReply
		}
		if charged > 0 {
			d.Limits = append(d.Limits, quota.LimitState{Limit: limit, Used: used, Cost: charged})
		}
	}
	return d, nil
}

// Adjust implements quota.Ledger.
func (l *Ledger) Adjust(ctx context.Context, c *quota.Credential, a quota.Adjustment) (quota.Decision, error) {
	number := slices.IndexFunc(c.Limits, func(limit quota.Limit) bool { return limit.Name == a.Limit })
	if number < 0 {
		return quota.Decision{Reason: quota.BadRequest, Detail: fmt.Sprintf("unknown limit %q", a.Limit)}, nil
	}
	lane := l.lane(c.Name + " adjust")
	lane.Lock()
	defer lane.Unlock()
	r, err := l.do(ctx, c, verb{
		script: l.scripts.adjust,
		name:   l.call(),
		daemon: l.daemon + "/adjust", // remembered apart from what it acquires
		args:   []any{number + 1, a.Units, a.Caller.By(), a.Caller.Region, a.Note},
	})
	if err != nil {
		return quota.Decision{}, err
	}
	if r.status == "overflow" {
		return overflow(), nil
	}
	if len(r.rest) != 3 {
		return quota.Decision{}, errReply
	}
	booked, ok1 := units(r.rest[0])
	used, ok2 := units(r.rest[1])
	text, ok3 := r.rest[2].(string)
	id, err := quota.ParseID(text)
	if !ok1 || !ok2 || !ok3 || err != nil {
		return quota.Decision{}, errReply
	}
	return quota.Decision{Units: booked, Trace: id, Limits: []quota.LimitState{{Limit: c.Limits[number], Used: used}}}, nil
}

// Reset implements quota.Ledger.
func (l *Ledger) Reset(ctx context.Context, c *quota.Credential, by quota.Caller, note string) error {
	args := append(prices(c), by.By(), by.Region, noteOf(quota.Entry{Kind: quota.KindReset, Note: note}))
	_, err := l.do(ctx, c, verb{script: l.scripts.reset, name: l.call(), daemon: l.daemon + "/reset", args: args})
	return err
}

func overflow() quota.Decision {
	return quota.Decision{
		Reason: quota.BadRequest,
		Detail: "a limit would hold more than " + quota.MaxUnits.Text(),
	}
}

// units reads a number that a script answered as an integer or as text.
func units(value any) (quota.Units, bool) {
	switch v := value.(type) {
	case int64:
		return quota.Units(v), true
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return quota.Units(n), err == nil
	}
	return 0, false
}
