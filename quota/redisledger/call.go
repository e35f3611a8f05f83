package redisledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
)

// A reply is a script's: its status, Redis' time, and what the verb answers.
type reply struct {
	status string
	now    time.Time
	rest   []any
}

// run calls a script, repeating it until it is answered, refused or out of time.
// Every script may be repeated: those that debit are told by name that it is the
// same call.
func (l *Ledger) run(ctx context.Context, script *redis.Script, keys []string, args []any) ([]any, error) {
	sent := false
	for pause := time.Millisecond; ; pause *= 2 {
		values, err := script.Run(ctx, l.client, keys, args...).Slice()
		if err == nil {
			return values, nil
		}
		sent = sent || mayHaveRun(err)
		if !repeatable(err) || !wait(ctx, pause) {
			return nil, failure(sent, err)
		}
	}
}

// wait waits, and reports whether there is time left.
func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// mayHaveRun tells whether a script may have been carried out although its call
// failed: not when no connection was made, nor when Redis answered with an error.
func mayHaveRun(err error) bool {
	var answered redis.Error
	var dial *net.OpError
	switch {
	case errors.As(err, &answered), errors.Is(err, redis.ErrPoolTimeout):
		return false
	case errors.As(err, &dial) && dial.Op == "dial":
		return false
	}
	return true
}

// repeatable tells whether the same call may succeed a moment later: when the
// connection broke, and when a Redis is taking over or not up yet.
func repeatable(err error) bool {
	var answered redis.Error
	if errors.As(err, &answered) {
		kind, _, _ := strings.Cut(answered.Error(), " ")
		return slices.Contains([]string{"LOADING", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "READONLY"}, kind)
	}
	return mayHaveRun(err)
}

func failure(sent bool, err error) error {
	if sent {
		return fmt.Errorf("cannot reach redis: %w: %w", quota.ErrOutcomeUnknown, err)
	}
	return fmt.Errorf("cannot reach redis: %w: %w", quota.ErrUnavailable, err)
}

// verb calls a script on a credential's account as often as it takes: until the
// account has caught up and the calendar periods are those of Redis' time.
// args builds the arguments around the limits' own, for each try anew.
func (l *Ledger) verb(ctx context.Context, script *redis.Script, c *quota.Credential, args func(limits []any) []any) (reply, error) {
	keys := l.keys(c.Name)
	for {
		values, err := l.run(ctx, script, keys, args(l.limits(c)))
		if err != nil {
			return reply{}, err
		}
		r, err := l.parse(values)
		if err != nil {
			return reply{}, err
		}
		switch r.status {
		case "behind":
			err = l.count(ctx, c)
		case "more":
			err = l.tidy(ctx, c)
		case "period":
			err = ctx.Err()
		default:
			return r, nil
		}
		if err != nil {
			return reply{}, failure(false, err)
		}
	}
}

// parse reads the status and the time, from which the skew of the clocks follows.
func (l *Ledger) parse(values []any) (reply, error) {
	if len(values) < 2 {
		return reply{}, errReply
	}
	status, ok1 := values[0].(string)
	ms, ok2 := values[1].(int64)
	if !ok1 || !ok2 {
		return reply{}, errReply
	}
	l.skew.Store(ms - time.Now().UnixMilli())
	return reply{status: status, now: time.UnixMilli(ms).UTC(), rest: values[2:]}, nil
}

var errReply = errors.New("cannot understand redis: a script answered in an unknown form")

// count lets an account catch up with its limits.
func (l *Ledger) count(ctx context.Context, c *quota.Credential) error {
	for {
		args := append(l.limits(c), prices(c)...)
		values, err := l.run(ctx, l.scripts.count, l.keys(c.Name), args)
		if err != nil {
			return err
		}
		if r, err := l.parse(values); err != nil || r.status == "done" {
			return err
		}
	}
}

// tidy takes out of the windows what has left them: an acquire of nothing.
func (l *Ledger) tidy(ctx context.Context, c *quota.Credential) error {
	lane := l.lane(c.Name)
	lane.Lock()
	defer lane.Unlock()
	args := append([]any{l.daemon, l.call()}, l.limits(c)...)
	_, err := l.run(ctx, l.scripts.acquire, l.keys(c.Name), append(args, 0))
	return err
}

// limits writes the limits as read_limits of the prelude reads them.
func (l *Ledger) limits(c *quota.Credential) []any {
	args := make([]any, 0, 1+7*len(c.Limits)+8)
	args = append(args, len(c.Limits))
	for i, limit := range c.Limits {
		var length, starts, ends int64
		if limit.Window.IsCalendar() {
			after, end := limit.Window.Bounds(l.now())
			starts, ends = after.UnixMilli()+1, end.UnixMilli()
		} else {
			length = limit.Window.Length.Milliseconds()
		}
		args = append(args, limit.Name, int64(limit.Units), int64(limit.Reserve), length, starts, ends, c.Basis(i))
	}
	return args
}

// prices writes, for each limit, what operations cost in it.
func prices(c *quota.Credential) []any {
	args := make([]any, len(c.Limits))
	for i, limit := range c.Limits {
		var list []string
		for _, operation := range slices.Sorted(maps.Keys(c.Operations)) {
			if units := c.Operations[operation].In(limit, operation); units > 0 {
				list = append(list, fmt.Sprintf("%s=%d", operation, units))
			}
		}
		args[i] = strings.Join(list, " ")
	}
	return args
}
