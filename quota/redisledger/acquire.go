package redisledger

import (
	"context"
	"errors"
	"slices"
	"strings"
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
	v := verb{script: a.ledger.scripts.acquire, name: a.ledger.call(), args: append(make([]any, 0, 1+5*len(asks)), 0)}
	texts := make([]string, len(asks))
	for i, ask := range asks {
		digest := requestDigest(ask.Key())
		texts[i] = grantText(ask, digest)
		v.args = append(v.args, 0, digest, texts[i])
		v.args = appendCharges(v.args, c, ask.Charges, ask.UseReserve)
	}
	r, err := a.do(ctx, c, v)
	if errors.Is(err, quota.ErrOutcomeUnknown) {
		a.unanswered = &unanswered{name: v.name, asks: asks}
	}
	if err != nil {
		return nil, err
	}
	decisions, err := a.decisions(c, asks, r)
	if err != nil {
		return nil, err
	}
	for i, d := range decisions {
		if d.GrantID != "" {
			a.record(r.epoch, d.GrantID[len(c.Name)+1:], texts[i])
		}
	}
	a.hearDecisions(decisions)
	return decisions, nil
}

// appendCharges writes for each limit what is charged, and how much may be used then.
func appendCharges(args []any, c *quota.Credential, charges []quota.Charge, useReserve bool) []any {
	for _, limit := range c.Limits {
		units, _ := quota.ChargeIn(charges, limit.Name)
		args = append(args, int64(units), int64(limit.Budget(useReserve)))
	}
	return args
}

// Peek implements quota.Ledger.
func (l *Ledger) Peek(ctx context.Context, c *quota.Credential, operations []string, charges []quota.Charge, useReserve bool) (quota.Decision, error) {
	a := l.account(c.Name)
	ask := quota.Ask{Request: quota.Request{UseReserve: useReserve}, Charges: charges}
	if down := a.whyDown(); down != nil {
		return a.peekOffline(operations, ask, down)
	}
	args := appendCharges([]any{0, 1, "-", "-"}, c, charges, useReserve)
	for {
		r, err := a.do(ctx, c, verb{script: l.scripts.acquire, name: l.call(), args: args})
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
	name string
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
	r, err := a.do(ctx, c, verb{script: a.ledger.scripts.acquire, name: a.ledger.call(), args: []any{1}})
	if err != nil {
		return err
	}
	if len(r.rest) < 1 {
		return errReply
	}
	// "daemon call ms first-id bits", a bit for each ask
	words := strings.Fields(asText(r.rest[0]))
	if len(words) == 5 && words[1] == a.unanswered.name {
		id, err := quota.ParseID(words[3])
		if err != nil {
			return errReply
		}
		for i, ask := range a.unanswered.asks {
			if i >= len(words[4]) || words[4][i] != '1' {
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
	size := 3 + len(c.Limits)
	if len(r.rest) < 1 || (len(r.rest)-1)%size != 0 || (len(r.rest)-1)/size > len(asks) {
		return nil, errReply
	}
	rows := r.rest[1:]
	decisions := make([]quota.Decision, len(rows)/size)
	for i := range decisions {
		d, err := decision(c, asks[i], r, rows[i*size:(i+1)*size])
		if err != nil {
			return nil, err
		}
		decisions[i] = d
	}
	return decisions, nil
}

// decision reads one decided request: its kind, what belongs to the kind, and the units
// used of each limit.
func decision(c *quota.Credential, ask quota.Ask, r reply, row []any) (quota.Decision, error) {
	d := quota.Decision{Units: quota.Max(ask.Charges), Limits: make([]quota.LimitState, 0, len(ask.Charges))}
	for i, limit := range c.Limits {
		units, counts := quota.ChargeIn(ask.Charges, limit.Name)
		if !counts {
			continue
		}
		used, ok := row[3+i].(int64)
		if !ok {
			return d, errReply
		}
		d.Limits = append(d.Limits, quota.LimitState{Limit: limit, Used: quota.Units(used), Cost: units})
	}
	switch row[0] {
	case "granted", "replayed":
		if id := asText(row[1]); id != "" {
			d.GrantID = c.Name + ":" + id
		}
		d.Replayed = row[0] == "replayed"
		return d, nil
	case "conflict":
		e, err := parseEntry(quota.ID{}, asText(row[1]))
		return quota.Conflict(e.Operation, e.Count), err
	case "denied":
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
	for i, s := range d.Limits {
		if s.Name == d.Limit && s.Used+s.Cost <= s.Budget(ask.UseReserve) {
			d.Limits[i].CatchingUp = d.RetryAt // nothing else refuses what fits
		}
	}
	d.RetryAfter = max(time.Millisecond, d.RetryAt.Sub(r.clock))
	return d, nil
}
