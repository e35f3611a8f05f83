package redisledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"quotad/quota"
)

// maxBatch is how many asks one call decides: what it leaves to be remembered has a place
// for each.
const maxBatch = 128

// Acquire implements quota.Ledger. The asks are decided in one call, unless so much
// leaves the windows at once that it takes several. While Redis cannot decide, each ask
// is decided by its operation's policy, at once.
func (l *Ledger) Acquire(ctx context.Context, c *quota.Credential, asks []quota.Ask) ([]quota.Decision, error) {
	a := l.account(c.Name)
	err := a.begin(ctx)
	if err == nil {
		var decisions []quota.Decision
		decisions, err = a.acquire(ctx, c, asks)
		a.end()
		if err == nil {
			return decisions, nil
		}
		a.fail(err)
	}
	return a.decideOffline(asks, err)
}

// acquire decides all the asks, unless it fails before it has decided one.
func (a *account) acquire(ctx context.Context, c *quota.Credential, asks []quota.Ask) ([]quota.Decision, error) {
	if err := a.resolve(ctx, c); err != nil {
		return nil, err
	}
	decisions := make([]quota.Decision, 0, len(asks))
	for len(decisions) < len(asks) {
		rest := asks[len(decisions):]
		decided, err := a.acquireSome(ctx, c, rest[:min(maxBatch, len(rest))])
		if err != nil && len(decisions) == 0 {
			return nil, err
		}
		if err != nil { // what was granted before must not be forgotten over it
			decided = slices.Repeat([]quota.Decision{{Err: err}}, len(rest))
		}
		decisions = append(decisions, decided...)
	}
	return decisions, nil
}

// acquireSome decides some of the asks. What was granted is in the journal when it returns.
func (a *account) acquireSome(ctx context.Context, c *quota.Credential, asks []quota.Ask) ([]quota.Decision, error) {
	v := verb{
		script: a.ledger.scripts.acquire, call: a.ledger.calls.Add(1),
		args: make([]any, len(asks)), charges: make([]float64, 0, 2*len(asks)*len(c.Limits)),
	}
	for i, ask := range asks {
		v.args[i] = grantText(ask, requestDigest(ask.Key()))
		v.charges = appendCharges(v.charges, c, ask.Charges, ask.UseReserve)
	}
	v.charges = appendAtMost(v.charges, asks)
	r, err := a.do(ctx, c, v)
	if errors.Is(err, quota.ErrOutcomeUnknown) {
		a.unanswered = &unanswered{call: v.call, asks: asks}
	}
	if err != nil {
		return nil, err
	}
	decisions, err := a.decisions(c, asks, r)
	if err != nil {
		return nil, err
	}
	granted := make([]logLine, 0, len(asks))
	for i, d := range decisions {
		if d.GrantID != "" {
			text := v.args[i].(string)
			if n := d.Calls(asks[i].Request); n != asks[i].Count {
				text = grantText(asks[i].Fewer(n), requestDigest(asks[i].Key()))
			}
			granted = append(granted, logLine{id: d.GrantID[len(c.Name)+1:], text: text})
		}
	}
	a.record(r.epoch, granted...)
	a.hearDecisions(decisions)
	return decisions, nil
}

// appendCharges writes for each limit what is charged, and how much may be used then. One
// that only observes refuses nothing.
func appendCharges(numbers []float64, c *quota.Credential, charges []quota.Charge, useReserve bool) []float64 {
	for _, limit := range c.Limits {
		units, _ := quota.ChargeIn(charges, limit.Name)
		budget := limit.Budget(useReserve)
		if limit.Observe {
			budget = quota.MaxUnits
		}
		numbers = append(numbers, float64(units), float64(budget))
	}
	return numbers
}

// appendAtMost writes for each ask how many calls it is for, if it takes less, else 0;
// nothing if none does.
func appendAtMost(numbers []float64, asks []quota.Ask) []float64 {
	if !slices.ContainsFunc(asks, func(a quota.Ask) bool { return a.AtMost }) {
		return numbers
	}
	for _, ask := range asks {
		numbers = append(numbers, float64(ask.Granted()))
	}
	return numbers
}

// Peek implements quota.Ledger.
func (l *Ledger) Peek(ctx context.Context, c *quota.Credential, operations []string, charges []quota.Charge, useReserve bool) (quota.Decision, error) {
	a := l.account(c.Name)
	ask := quota.Ask{Request: quota.Request{UseReserve: useReserve}, Charges: charges}
	if down := a.whyDown(); down != nil {
		return a.peekOffline(operations, ask, down)
	}
	v := verb{script: l.scripts.acquire, args: []any{"-"}, charges: appendCharges(nil, c, charges, useReserve)}
	for {
		r, err := a.do(ctx, c, v)
		if err != nil {
			a.fail(err)
			return a.peekOffline(operations, ask, err)
		}
		decisions, err := a.decisions(c, []quota.Ask{ask}, r)
		if err != nil || len(decisions) == 1 {
			return append(decisions, quota.Decision{})[0], err
		}
	}
}

// An unanswered call is one whose outcome is not known.
type unanswered struct {
	call uint64
	asks []quota.Ask
}

// resolve finds out what became of the unanswered call. What it granted to requests
// without an id is released: their callers were told that it is unknown, and have no name
// to ask for it again. The others find their grant by their id. From then on the call is
// not carried out any more, should it still be on its way. The caller has the turn.
func (a *account) resolve(ctx context.Context, c *quota.Credential) error {
	if a.unanswered == nil {
		return nil
	}
	r, err := a.do(ctx, c, verb{script: a.ledger.scripts.fence})
	if err != nil {
		return err
	}
	if len(r.rest) != 2 {
		return errReply
	}
	if call, what := r.rest[0], asText(r.rest[1]); call == int64(a.unanswered.call) && len(what) > 16 {
		id, bits := quota.ID{Ms: unpacked(what), Seq: unpacked(what[8:])}, what[16:]
		for i, ask := range a.unanswered.asks {
			if i >= len(bits) || bits[i] != '1' {
				continue
			}
			if ask.Key() == "" {
				if _, err := a.settle(ctx, c, quota.Settlement{Grant: id, Caller: ask.Caller}); err != nil {
					return err
				}
			}
			id.Seq++
		}
	}
	a.unanswered = nil
	return nil
}

// decisions reads the decided requests from a reply.
func (a *account) decisions(c *quota.Credential, asks []quota.Ask, r reply) ([]quota.Decision, error) {
	if r.used != nil {
		return allGranted(c, asks, r), nil
	}
	size := 3 + len(c.Limits)
	if len(r.rest)%size != 0 || len(r.rest)/size > len(asks) {
		return nil, errReply
	}
	decisions := make([]quota.Decision, len(r.rest)/size)
	for i := range decisions {
		d, err := decision(c, asks[i], r, r.rest[i*size:(i+1)*size])
		if err != nil {
			return nil, err
		}
		decisions[i] = d
	}
	return decisions, nil
}

// allGranted are the decisions where all asks are granted, the last one under the newest
// id: what the limits hold is known of the end.
func allGranted(c *quota.Credential, asks []quota.Ask, r reply) []quota.Decision {
	decisions := make([]quota.Decision, len(asks))
	for n := len(asks) - 1; n >= 0; n-- {
		decisions[n] = decided(c, asks[n], r.used, nil, r.now)
		decisions[n].Count = asks[n].Granted()
		decisions[n].GrantID = quota.GrantID(c.Name, r.newest)
		r.newest.Seq--
		for i, limit := range c.Limits {
			units, _ := quota.ChargeIn(asks[n].Charges, limit.Name)
			r.used[i] -= units
		}
	}
	return decisions
}

// decided begins a decision at now with the units used of each limit.
func decided(c *quota.Credential, ask quota.Ask, used []quota.Units, closed map[string]quota.Closed, now time.Time) quota.Decision {
	d := quota.Decision{Units: quota.Max(ask.Charges), Limits: make([]quota.LimitState, 0, len(ask.Charges))}
	for i, limit := range c.Limits {
		if units, counts := quota.ChargeIn(ask.Charges, limit.Name); counts {
			d.Limits = append(d.Limits, quota.LimitState{Limit: limit, Used: used[i], Cost: units, Closed: closed[limit.Name], Lifted: limit.LiftedAt(now)})
		}
	}
	return d
}

// decision reads one decided request: its kind, what belongs to the kind, and the units
// used of each limit.
func decision(c *quota.Credential, ask quota.Ask, r reply, row []any) (quota.Decision, error) {
	used := make([]quota.Units, len(c.Limits))
	for i := range used {
		var ok bool
		if used[i], ok = units(row[3+i]); !ok {
			return quota.Decision{}, errReply
		}
	}
	if ask.AtMost {
		count, told := row[2].(int64)
		if !told || row[0] == "denied" || row[0] == "closed" {
			count = 1 // a denial is about one call
		}
		ask = ask.Fewer(quota.Units(count))
	}
	d := decided(c, ask, used, r.closed, r.now)
	switch row[0] {
	case "granted", "replayed":
		d.Count = ask.Granted()
		if id := asText(row[1]); id != "" {
			d.GrantID = c.Name + ":" + id
		}
		d.Replayed = row[0] == "replayed"
		return d, nil
	case "conflict":
		e, err := parseEntry(quota.ID{}, asText(row[1]))
		return quota.Conflict(e.Operation, e.Count), err
	case "denied", "closed":
		return denied(c, ask, r, row, d)
	}
	return d, errReply
}

// denied says when the request fits: by the log's arithmetic, and how long that is from
// now by Redis' own clock, which may be behind the log.
func denied(c *quota.Credential, ask quota.Ask, r reply, row []any, d quota.Decision) (quota.Decision, error) {
	number, ok1 := row[1].(int64)
	fits, ok2 := row[2].(int64)
	if !ok1 || !ok2 || number < 1 || int(number) > len(c.Limits) {
		return d, errReply
	}
	d.Reason, d.Limit = quota.LimitExceeded, c.Limits[number-1].Name
	d.RetryAt = time.UnixMilli(fits).UTC()
	d.RetryAfter = max(time.Millisecond, d.RetryAt.Sub(r.clock))
	if row[0] == "closed" {
		d.Reason = quota.LimitClosed
		return d, nil
	}
	for i, s := range d.Limits {
		if s.Name == d.Limit && s.Used+s.Cost <= s.Budget(ask.UseReserve) {
			d.Limits[i].CatchingUp = d.RetryAt // nothing else refuses what fits
		}
	}
	return d, nil
}
