package redisledger

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
)

// The flags of a request, as acquire.lua has them.
const (
	flagReserve = 1
	flagPeek    = 2
)

// Acquire implements quota.Ledger. The asks are decided in one call, unless so
// much leaves the windows at once that it takes several.
func (l *Ledger) Acquire(ctx context.Context, c *quota.Credential, asks []quota.Ask) ([]quota.Decision, error) {
	lane := l.lane(c.Name)
	lane.Lock()
	defer lane.Unlock()
	if err := l.resolve(ctx, c, lane); err != nil {
		return nil, err
	}
	decisions := make([]quota.Decision, 0, len(asks))
	for len(decisions) < len(asks) {
		decided, err := l.acquire(ctx, c, lane, asks[len(decisions):])
		if err != nil && len(decisions) == 0 {
			return nil, err
		}
		if err != nil { // what was granted before must not be forgotten over it
			decided = slices.Repeat([]quota.Decision{{Err: err}}, len(asks)-len(decisions))
		}
		decisions = append(decisions, decided...)
	}
	return decisions, nil
}

// Peek implements quota.Ledger.
func (l *Ledger) Peek(ctx context.Context, c *quota.Credential, operations []string, charges []quota.Charge) (quota.Decision, error) {
	lane := l.lane(c.Name)
	lane.Lock()
	defer lane.Unlock()
	if err := l.resolve(ctx, c, lane); err != nil {
		return quota.Decision{}, err
	}
	ask := quota.Ask{Charges: charges}
	v := verb{script: l.scripts.acquire, name: l.call(), args: appendAsk([]any{1}, c, ask, flagPeek)}
	r, err := l.do(ctx, c, v)
	if err != nil {
		return quota.Decision{}, err
	}
	decisions, err := l.decisions(ctx, c, []quota.Ask{ask}, r)
	if err != nil || len(decisions) != 1 {
		return quota.Decision{}, errors.Join(errReply, err)
	}
	return decisions[0], decisions[0].Err
}

// acquire decides at least one of the asks, unless it fails.
func (l *Ledger) acquire(ctx context.Context, c *quota.Credential, lane *lane, asks []quota.Ask) ([]quota.Decision, error) {
	args := append(make([]any, 0, 1+8*len(asks)), len(asks))
	for _, ask := range asks {
		args = appendAsk(args, c, ask, 0)
	}
	v := verb{script: l.scripts.acquire, name: l.call(), args: args}
	r, err := l.do(ctx, c, v)
	if errors.Is(err, quota.ErrOutcomeUnknown) {
		lane.unanswered = &unanswered{name: v.name, asks: asks}
	}
	if err != nil {
		return nil, err
	}
	return l.decisions(ctx, c, asks, r)
}

// resolve finds out what became of the lane's unanswered call. What it granted to
// requests without an id is released: their callers were told that it is unknown,
// and have no name to ask for it again. The others find their grant by their id.
func (l *Ledger) resolve(ctx context.Context, c *quota.Credential, lane *lane) error {
	if lane.unanswered == nil {
		return nil
	}
	call, err := l.client.HGet(ctx, l.keys(c.Name)[0], "c:"+l.daemon).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return failure(false, err)
	}
	name, ids, _ := strings.Cut(call, " ")
	if name == lane.unanswered.name {
		for i, text := range strings.Fields(ids) {
			if err := l.release(ctx, c, lane.unanswered.asks[i], text); err != nil {
				return err
			}
		}
	}
	lane.unanswered = nil
	return nil
}

// release gives back what was granted to an ask that nobody can ask for again.
func (l *Ledger) release(ctx context.Context, c *quota.Credential, ask quota.Ask, granted string) error {
	if granted == "-" || ask.Key() != "" {
		return nil
	}
	id, err := quota.ParseID(granted)
	if err != nil {
		return errReply
	}
	_, err = l.Settle(ctx, c, quota.Settlement{Grant: id, Caller: ask.Caller})
	return err
}

func appendAsk(args []any, c *quota.Credential, ask quota.Ask, flags int) []any {
	if ask.UseReserve {
		flags |= flagReserve
	}
	args = append(args, flags, ask.Operation, int64(ask.Count), ask.Caller.By(), ask.Caller.Region, ask.Key())
	for _, limit := range c.Limits {
		units, _ := quota.ChargeIn(ask.Charges, limit.Name)
		args = append(args, int64(units))
	}
	return args
}

// decisions reads the decided requests from a reply.
func (l *Ledger) decisions(ctx context.Context, c *quota.Credential, asks []quota.Ask, r reply) ([]quota.Decision, error) {
	size := 3 + len(c.Limits)
	decisions := make([]quota.Decision, len(r.rest)/size)
	times := make(map[fitting]int64)
	if len(r.rest)%size != 0 || len(decisions) > len(asks) {
		return nil, errReply
	}
	for i := range decisions {
		row := r.rest[i*size : (i+1)*size]
		d, err := l.decision(ctx, c, asks[i], r.now, row, times)
		if err != nil {
			return nil, err
		}
		decisions[i] = d
	}
	return decisions, nil
}

// decision reads one decided request: its kind, what belongs to the kind, and
// the units used of each limit.
func (l *Ledger) decision(ctx context.Context, c *quota.Credential, ask quota.Ask, now time.Time, row []any, times map[fitting]int64) (quota.Decision, error) {
	d := quota.Decision{Units: quota.Max(ask.Charges), Limits: make([]quota.LimitState, len(ask.Charges))}
	for i, charge := range ask.Charges {
		limit := c.Index(charge.Limit)
		used, ok := row[3+limit].(int64)
		if !ok {
			return d, errReply
		}
		d.Limits[i] = quota.LimitState{Limit: c.Limits[limit], Used: quota.Units(used), Cost: charge.Units}
	}
	switch row[0] {
	case "granted", "replayed":
		id, ok := row[1].(string)
		if !ok {
			return d, errReply
		}
		if id != "" {
			d.GrantID = c.Name + ":" + id
		}
		d.Replayed = row[0] == "replayed"
		return d, nil
	case "conflict":
		return conflict(row)
	case "denied":
		return l.denied(ctx, c, ask, now, d, row, times)
	}
	return d, errReply
}

func conflict(row []any) (quota.Decision, error) {
	operation, ok1 := row[1].(string)
	count, ok2 := units(row[2])
	if !ok1 || !ok2 {
		return quota.Decision{}, errReply
	}
	return quota.Conflict(operation, count), nil
}

func (l *Ledger) denied(ctx context.Context, c *quota.Credential, ask quota.Ask, now time.Time, d quota.Decision, row []any, times map[fitting]int64) (quota.Decision, error) {
	number, ok1 := row[1].(int64)
	fits, ok2 := row[2].(int64)
	if !ok1 || !ok2 || number < 1 || int(number) > len(c.Limits) {
		return d, errReply
	}
	limit := int(number) - 1
	if fits == 0 {
		var err error
		if limit, fits, err = l.when(ctx, c, ask, times); err != nil {
			return quota.Decision{Err: err}, nil // others of the call may have been granted
		}
		fits = max(fits, now.UnixMilli()+1)
	}
	d.Reason, d.Limit = quota.LimitExceeded, c.Limits[limit].Name
	d.RetryAt = time.UnixMilli(fits).UTC()
	for i, s := range d.Limits {
		if s.Name == d.Limit && s.Used+s.Cost <= s.Budget(ask.UseReserve) {
			d.Limits[i].CatchingUp = d.RetryAt // nothing else refuses what fits
		}
	}
	// Units may have come back while when was reading on.
	d.RetryAfter = max(time.Millisecond, d.RetryAt.Sub(now))
	return d, nil
}

// A fitting is a charge whose time was asked for: requests that share a call are
// often alike.
type fitting struct {
	quota.Charge
	useReserve bool
}

// when finds the limit that refuses the longest and the ms until which it does,
// reading on where one call's worth of the log did not tell.
func (l *Ledger) when(ctx context.Context, c *quota.Credential, ask quota.Ask, times map[fitting]int64) (limit int, fits int64, err error) {
	for _, charge := range ask.Charges {
		key := fitting{charge, ask.UseReserve}
		at, known := times[key]
		if !known {
			if at, err = l.whenIn(ctx, c, charge, ask.UseReserve); err != nil {
				return 0, 0, err
			}
			times[key] = at
		}
		if at > fits {
			limit, fits = c.Index(charge.Limit), at
		}
	}
	return limit, fits, nil
}

func (l *Ledger) whenIn(ctx context.Context, c *quota.Credential, charge quota.Charge, useReserve bool) (int64, error) {
	from := []any{"", 0, 0}
	for {
		v := verb{script: l.scripts.when, name: l.call()}
		args := append(l.head(c, v, l.Known(c.Name)), c.Index(charge.Limit)+1, int64(charge.Units), flag(useReserve))
		values, err := l.run(ctx, v.script, l.keys(c.Name)[:3], append(args, from...))
		if err != nil {
			return 0, err
		}
		if len(values) != 4 {
			return 0, errReply
		}
		if values[0] == "more" {
			from = values[1:]
			continue
		}
		at, ok := values[1].(int64)
		if !ok {
			return 0, errReply
		}
		return at, nil
	}
}
