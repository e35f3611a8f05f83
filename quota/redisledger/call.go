package redisledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
)

// A reply is a script's: its status, Redis' time, the log's mark, and what the
// verb answers.
type reply struct {
	status string
	now    time.Time
	mark   quota.Mark
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
	var dial dialError
	return !errors.As(err, &answered) && !errors.As(err, &dial) && !errors.Is(err, redis.ErrPoolTimeout)
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

// A verb is a script call on a credential's account.
type verb struct {
	script *redis.Script
	name   string // of the call: the same when it is asked again
	daemon string // under which it is remembered; empty: the ledger's own
	args   []any  // behind the head
	// known is the log that is meant, if not the one that the ledger knows; then
	// nothing is learnt from the answer.
	known *quota.Mark
}

// do calls a verb as often as it takes: until the account has caught up and the
// calendar periods are those of Redis' time.
func (l *Ledger) do(ctx context.Context, c *quota.Credential, v verb) (reply, error) {
	for {
		r, err := l.once(ctx, c, v)
		if err != nil {
			return reply{}, err
		}
		switch r.status {
		case "lost":
			return reply{}, errLost
		case "rest":
			err = l.endRest(ctx, c, r)
		case "behind":
			err = l.count(ctx, c)
		case "more":
			if len(r.rest) > 0 {
				return r, nil
			}
			if v.script != l.scripts.acquire {
				err = l.tidy(ctx, c)
			}
		case "period":
			err = ctx.Err()
		default:
			return r, nil
		}
		if err != nil {
			return reply{}, outOfTime(err)
		}
	}
}

// outOfTime says of a context's end that nothing was debited; other errors know
// that themselves.
func outOfTime(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return failure(false, err)
	}
	return err
}

// once calls a verb and reads the front of its answer.
func (l *Ledger) once(ctx context.Context, c *quota.Credential, v verb) (reply, error) {
	known := l.Known(c.Name)
	if v.known != nil {
		known = *v.known
	}
	values, err := l.run(ctx, v.script, l.keys(c.Name), append(l.head(c, v, known), v.args...))
	if err != nil {
		return reply{}, err
	}
	r, err := l.parse(values)
	if err != nil {
		return reply{}, err
	}
	if r.status == "done" && v.known == nil {
		l.learn(c.Name, known, r.mark)
	}
	return r, nil
}

// parse reads the front of an answer. From its time the skew of the clocks follows.
func (l *Ledger) parse(values []any) (reply, error) {
	if len(values) < 4 {
		return reply{}, errReply
	}
	status, ok1 := values[0].(string)
	ms, ok2 := values[1].(int64)
	epoch, ok3 := values[2].(string)
	newest, ok4 := values[3].(string)
	id, err := quota.ParseID(newest)
	if !ok1 || !ok2 || !ok3 || !ok4 || err != nil {
		return reply{}, errReply
	}
	l.skew.Store(ms - time.Now().UnixMilli())
	return reply{status: status, now: time.UnixMilli(ms).UTC(), mark: quota.Mark{Epoch: epoch, Newest: id}, rest: values[4:]}, nil
}

var errReply = errors.New("cannot understand redis: a script answered in an unknown form")

var errLost = fmt.Errorf("%w: it was flushed, evicted or replaced by an older copy", quota.ErrLost)

// count lets an account catch up with its limits.
func (l *Ledger) count(ctx context.Context, c *quota.Credential) error {
	for {
		r, err := l.once(ctx, c, verb{script: l.scripts.count, name: l.call(), args: prices(c)})
		if err != nil || r.status != "more" {
			return err
		}
	}
}

// tidy takes out of the windows what has left them: an acquire of nothing, which
// leaves no trace of its name and so needs no lane.
func (l *Ledger) tidy(ctx context.Context, c *quota.Credential) error {
	r, err := l.once(ctx, c, verb{script: l.scripts.acquire, name: l.call(), args: []any{0}})
	if err == nil && r.status == "rest" {
		return l.endRest(ctx, c, r)
	}
	return err
}

// head writes what read_head of the prelude reads.
func (l *Ledger) head(c *quota.Credential, v verb, known quota.Mark) []any {
	args := make([]any, 0, 5+7*len(c.Limits)+len(v.args))
	daemon := v.daemon
	if daemon == "" {
		daemon = l.daemon
	}
	args = append(args, daemon, v.name, known.Epoch, known.Newest.String(), len(c.Limits))
	for i, limit := range c.Limits {
		var length, starts, ends int64
		if limit.Window.IsCalendar() {
			after, end := limit.Window.Bounds(l.Now())
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
