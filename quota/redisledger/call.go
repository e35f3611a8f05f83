package redisledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
)

// A reply is a script's: its status, the log's time and Redis' own, the log's
// position, and what the verb answers.
type reply struct {
	status string
	now    time.Time
	clock  time.Time
	position
	rest []any
}

// run calls a script, repeating it until it is answered, refused or out of time.
// Every script may be repeated: those that debit are told by name that it is the
// same call.
func (l *Ledger) run(ctx context.Context, script *redis.Script, keys []string, args []any) (values []any, err error) {
	err = repeat(ctx, func() error {
		values, err = script.Run(ctx, l.client, keys, args...).Slice()
		return err
	})
	return values, err
}

// repeat does so with any call.
func repeat(ctx context.Context, call func() error) error {
	sent := false
	for pause := time.Millisecond; ; pause *= 2 {
		err := call()
		if err == nil {
			return nil
		}
		sent = sent || mayHaveRun(err)
		if !repeatable(err) || !wait(ctx, pause) {
			return failure(sent, err)
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
	args   []any  // behind the head
	stages bool   // it uses the staged entries, too
	// known is the log that is meant, if not the one that is known; then nothing is learnt
	// from the answer.
	known *position
}

// do calls a verb as often as it takes: until the view has counted what it had not
// seen, and the calendar periods are those of Redis' time.
func (a *account) do(ctx context.Context, c *quota.Credential, v verb) (reply, error) {
	for {
		r, err := a.once(ctx, c, v)
		if err != nil {
			return reply{}, err
		}
		switch r.status {
		case "lost":
			return reply{}, errLost
		case "quiet":
			err = a.endQuiet(ctx, c, r)
		case "behind":
			err = a.count(ctx, c)
		case "more":
			if v.script == a.ledger.scripts.acquire {
				return r, nil
			}
			err = a.expire(ctx, c)
		case "period":
			err = ctx.Err()
		case "stray", "version":
			return reply{}, statusErrors[r.status]
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
func (a *account) once(ctx context.Context, c *quota.Credential, v verb) (reply, error) {
	l := a.ledger
	view := l.viewOf(c)
	known, now := a.known()
	if v.known != nil {
		known = *v.known
	}
	args := make([]any, 0, 6+4*len(c.Limits)+len(v.args))
	args = append(args, l.tag, v.name, known.epoch, known.newest.String(), view.digest, len(c.Limits))
	for _, limit := range c.Limits {
		var length, starts, ends int64
		if limit.Window.IsCalendar() {
			after, end := limit.Window.Bounds(now)
			starts, ends = after.UnixMilli()+1, end.UnixMilli()
		} else {
			length = limit.Window.Length.Milliseconds()
		}
		args = append(args, limit.Name, length, starts, ends)
	}
	keys := l.keys(c.Name, view.digest)
	if !v.stages {
		keys = keys[:5]
	}
	values, err := l.run(ctx, v.script, keys, append(args, v.args...))
	if err != nil {
		return reply{}, err
	}
	r, err := parse(values)
	if err != nil {
		return reply{}, err
	}
	a.hear(r, known, r.status == "done" && v.known == nil)
	return r, nil
}

// parse reads the front of an answer.
func parse(values []any) (reply, error) {
	if len(values) < 5 {
		return reply{}, errReply
	}
	status, ok1 := values[0].(string)
	ms, ok2 := values[1].(int64)
	epoch, ok3 := values[2].(string)
	newest, ok4 := values[3].(string)
	clock, ok5 := values[4].(int64)
	id, err := quota.ParseID(newest)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || err != nil {
		return reply{}, errReply
	}
	return reply{
		status: status, now: time.UnixMilli(ms).UTC(), clock: time.UnixMilli(clock).UTC(),
		position: position{epoch: epoch, newest: id}, rest: values[5:],
	}, nil
}

var (
	errReply = errors.New("cannot understand redis: a script answered in an unknown form")
	errLost  = fmt.Errorf("%w: it was flushed, evicted or replaced by an older copy", quota.ErrLost)
)

var statusErrors = map[string]error{
	"stray": fmt.Errorf("%w: a later call of this daemon was carried out before", quota.ErrUnavailable),
	"version": fmt.Errorf("%w: another version of quotad wrote this log: run the same version on every host, "+
		"or begin a new log under another key_prefix", quota.ErrUnavailable),
}

// count has the view count what it has not seen, a step at a time.
func (a *account) count(ctx context.Context, c *quota.Credential) error {
	args := append([]any{span(c).Milliseconds()}, a.ledger.viewOf(c).prices...)
	for {
		r, err := a.once(ctx, c, verb{script: a.ledger.scripts.count, name: a.ledger.call(), args: args})
		if err != nil || r.status != "behind" {
			return err
		}
	}
}

// expire takes out of the windows what has left them: an acquire of nothing, which
// leaves no trace of its name.
func (a *account) expire(ctx context.Context, c *quota.Credential) error {
	_, err := a.once(ctx, c, verb{script: a.ledger.scripts.acquire, name: a.ledger.call(), args: []any{0}})
	return err
}

// span is how far back the longest window of a credential reaches.
func span(c *quota.Credential) time.Duration {
	longest := time.Duration(0)
	for _, limit := range c.Limits {
		longest = max(longest, limit.Window.Span())
	}
	return longest
}
