package redisledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
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
	used   []quota.Units           // of each limit, if that is all: every ask is granted
	closed map[string]quota.Closed // limits that are closed, by name
	rest   []any
}

// run calls a script, repeating it until it is answered, refused or out of time.
// Every script may be repeated: those that debit are told by name that it is the
// same call.
func (l *Ledger) run(ctx context.Context, script *redis.Script, keys []string, args ...any) (value any, err error) {
	err = repeat(ctx, func() error {
		value, err = script.Run(ctx, l.client, keys, args...).Result()
		return err
	})
	return value, err
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
	script  *redis.Script
	call    uint64    // the same when it is asked again; 0: it has no number yet
	charges []float64 // behind it
	args    []any     // behind the head
	stages  bool      // it uses the staged entries, too
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
			err = a.endQuiet(c, r)
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
	if v.call == 0 {
		v.call = l.calls.Add(1)
	}
	args := append(make([]any, 0, 3+len(v.args)), l.front(known.epoch, view), view.packed(c, now),
		packed(append([]float64{float64(known.newest.Ms), float64(known.newest.Seq), float64(v.call)}, v.charges...)))
	keys := view.keys
	if !v.stages {
		keys = keys[:5]
	}
	value, err := l.run(ctx, v.script, keys, append(args, v.args...)...)
	if err != nil {
		return reply{}, err
	}
	r, err := parse(value, known.epoch, len(c.Limits))
	if err != nil {
		return reply{}, err
	}
	a.hear(r, known, r.status == "done" && v.known == nil)
	return r, nil
}

// front is how the account begins if this daemon wrote it last; account.lua says what it is.
func (l *Ledger) front(epoch string, v *view) []byte {
	b := append(make([]byte, 0, 80), '3', byte(len(epoch)))
	b = append(append(b, epoch...), 0)
	b = append(append(append(b, l.tag...), l.boot...), v.digest...)
	return append(b, byte(len(v.limits)))
}

// packed packs numbers as the scripts do.
func packed(numbers []float64) []byte {
	b := make([]byte, 0, 8*len(numbers))
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(n))
	}
	return b
}

// unpacked reads the packed number at the front.
func unpacked(text string) int64 {
	return int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(text[:8]))))
}

// parse reads the front of an answer, or the account's state, which is one too.
func parse(value any, epoch string, limits int) (reply, error) {
	if state, ok := value.(string); ok && len(state) == stateSize+8*limits {
		newest := quota.ID{Ms: unpacked(state), Seq: unpacked(state[8:])}
		r := reply{status: "done", now: newest.Time(), clock: newest.Time(), position: position{epoch: epoch, newest: newest}}
		for i := range limits {
			r.used = append(r.used, quota.Units(unpacked(state[stateSize+8*i:])))
		}
		return r, nil
	}
	values, _ := value.([]any)
	if len(values) < 6 {
		return reply{}, errReply
	}
	status, ok1 := values[0].(string)
	ms, ok2 := values[1].(int64)
	epoch, ok3 := values[2].(string)
	newest, ok4 := values[3].(string)
	clock, ok5 := values[4].(int64)
	id, err := quota.ParseID(newest)
	closed, ok := unpackClosed(asText(values[5]))
	if !ok {
		return reply{}, errReply
	}
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || err != nil {
		return reply{}, errReply
	}
	return reply{
		status: status, now: time.UnixMilli(ms).UTC(), clock: time.UnixMilli(clock).UTC(),
		position: position{epoch: epoch, newest: id}, closed: closed, rest: values[6:],
	}, nil
}

// unpackClosed reads what account.lua packs of each limit that is closed.
func unpackClosed(text string) (closed map[string]quota.Closed, ok bool) {
	for len(text) > 0 {
		if len(text) < 17 {
			return nil, false
		}
		c := quota.Closed{Since: instant(unpacked(text)), Until: instant(unpacked(text[8:]))}
		text = text[16:]
		var words [3]string // the name, why, who
		for i, size := range [3]int{1, 2, 1} {
			if len(text) < size {
				return nil, false
			}
			length := int(text[0])
			if size == 2 {
				length |= int(text[1]) << 8
			}
			if text = text[size:]; len(text) < length {
				return nil, false
			}
			words[i], text = text[:length], text[length:]
		}
		if closed == nil {
			closed = make(map[string]quota.Closed)
		}
		c.Says, c.By = unword(words[1]), unword(words[2])
		closed[words[0]] = c
	}
	return closed, true
}

// stateSize is that of the account's state without what the limits hold.
const stateSize = 3*8 + 2 + 8

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
		r, err := a.once(ctx, c, verb{script: a.ledger.scripts.count, args: args})
		if err != nil || r.status != "behind" {
			return err
		}
	}
}

// expire takes out of the windows what has left them: an acquire of nothing.
func (a *account) expire(ctx context.Context, c *quota.Credential) error {
	_, err := a.once(ctx, c, verb{script: a.ledger.scripts.acquire})
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
