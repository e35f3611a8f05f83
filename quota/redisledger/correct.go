package redisledger

import (
	"context"
	"fmt"
	"strconv"

	"quotad/quota"
)

// Settle implements quota.Ledger.
func (l *Ledger) Settle(ctx context.Context, c *quota.Credential, s quota.Settlement) (quota.Decision, error) {
	a := l.account(c.Name)
	if d, own, err := a.settleOffline(s); own {
		return d, err
	}
	if err := a.begin(ctx); err != nil {
		return quota.Decision{}, err
	}
	defer a.end()
	return a.settle(ctx, c, s)
}

func (a *account) settle(ctx context.Context, c *quota.Credential, s quota.Settlement) (quota.Decision, error) {
	args := []any{s.Grant.String(), int64(s.Units), settleText(s)}
	r, err := a.do(ctx, c, verb{script: a.ledger.scripts.settle, args: args})
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
	if len(r.rest) != 4+2*len(c.Limits) {
		return d, errReply
	}
	var texts [4]string
	for i := range texts {
		texts[i], _ = r.rest[i].(string)
	}
	// The grant, too: the host that was granted it may not be there to put it back.
	lines := []logLine{{id: texts[0], text: texts[1]}}
	if texts[3] != "" {
		lines = append(lines, logLine{id: texts[2], text: texts[3]})
	}
	a.record(r.epoch, lines...)
	for i, limit := range c.Limits {
		charged, ok1 := units(r.rest[4+2*i])
		used, ok2 := units(r.rest[5+2*i])
		if !ok1 || !ok2 {
			return d, errReply
		}
		if charged > 0 {
			d.Limits = append(d.Limits, quota.LimitState{Limit: limit, Used: used, Cost: charged, Closed: r.closed[limit.Name], Lifted: limit.LiftedAt(r.now)})
		}
	}
	return d, nil
}

// Adjust implements quota.Ledger. What reaches over many debits is given back in
// steps, each an entry of its own.
func (l *Ledger) Adjust(ctx context.Context, c *quota.Credential, adjustment quota.Adjustment) (quota.Decision, error) {
	number := c.Index(adjustment.Limit)
	if number < 0 {
		return quota.Decision{Reason: quota.BadRequest, Detail: fmt.Sprintf("unknown limit %q", adjustment.Limit)}, nil
	}
	a := l.account(c.Name)
	if err := a.begin(ctx); err != nil {
		return quota.Decision{}, err
	}
	defer a.end()
	total, left := quota.Units(0), adjustment.Units
	for {
		by := adjustment.Caller
		args := []any{number + 1, left, word(by.By()), word(by.Region), word(adjustment.Note)}
		r, err := a.do(ctx, c, verb{script: l.scripts.adjust, args: args})
		switch {
		case err != nil && total > 0:
			return quota.Decision{}, fmt.Errorf("only %s were given back: %w", total.Text(), err)
		case err != nil:
			return quota.Decision{}, err
		case r.status == "overflow":
			return overflow(), nil
		case len(r.rest) != 5:
			return quota.Decision{}, errReply
		}
		booked, ok1 := units(r.rest[0])
		used, ok2 := units(r.rest[1])
		id, ok3 := r.rest[2].(string)
		text, ok4 := r.rest[3].(string)
		more, ok5 := r.rest[4].(int64)
		if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 {
			return quota.Decision{}, errReply
		}
		a.record(r.epoch, logLine{id: id, text: text})
		total, left = total+booked, left+int64(booked)
		if more == 0 {
			return quota.Decision{Units: total, Limits: []quota.LimitState{{
				Limit: c.Limits[number], Used: used, Closed: r.closed[adjustment.Limit], Lifted: c.Limits[number].LiftedAt(r.now),
			}}}, nil
		}
	}
}

// CloseLimit implements quota.Ledger.
func (l *Ledger) CloseLimit(ctx context.Context, c *quota.Credential, k quota.Closing) (changed bool, err error) {
	a := l.account(c.Name)
	if err := a.begin(ctx); err != nil {
		return false, err
	}
	defer a.end()
	until := int64(0)
	if !k.Until.IsZero() {
		until = k.Until.UnixMilli()
	}
	text := closingText(k)
	r, err := a.do(ctx, c, verb{script: l.scripts.close, args: []any{text, k.Limit, until}})
	if err != nil {
		return false, err
	}
	if len(r.rest) != 1 {
		return false, errReply
	}
	id := asText(r.rest[0])
	if id != "" {
		a.record(r.epoch, logLine{id: id, text: text})
	}
	return id != "", nil
}

// Reset implements quota.Ledger. It is also the way out of a log that is ahead of
// Redis' clock.
func (l *Ledger) Reset(ctx context.Context, c *quota.Credential, by quota.Caller, note string) error {
	a := l.account(c.Name)
	if err := a.begin(ctx); err != nil {
		return err
	}
	defer a.end()
	text := resetText(by, note)
	r, err := a.do(ctx, c, verb{script: l.scripts.reset, args: []any{text, span(c).Milliseconds()}, stages: true})
	if err != nil {
		return err
	}
	if len(r.rest) != 1 {
		return errReply
	}
	id, _ := r.rest[0].(string)
	a.record(r.epoch, logLine{id: id, text: text})
	return nil
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
