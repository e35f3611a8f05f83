package slidinglog

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"quotad/quota"
)

// A word begins the answer to a call.
const (
	granted = "granted" // it is in the log
	fits    = "fits"    // it would be granted
	denied  = "denied"
	done    = "done"  // a correction is in the log
	again   = "again" // the log knew the id
	gone    = "gone"  // there is no such grant to settle
	over    = "over"  // a sum would exceed quota.MaxUnits
	lost    = "lost"  // it is another log than this host knows
	quiet   = "quiet" // nothing is decided yet
	late    = "late"  // it came after its time
	clock   = "clock" // the period is another
	busy    = "busy"  // a page of work is done: call again
)

// A call is what a host asks of a log: to decide checks, or to correct.
type call struct {
	id, text string // no id: it only looks
	checks   []quota.Check
	at       func(now time.Time) []quota.Check // the checks, at the log's time
	correct  bool

	// What the host knows.
	last    string // the newest entry in its journal
	lastAt  int64
	epoch   string
	seen    int64 // the newest time of the log that it knows
	keep    int64
	until   int64 // the last µs at which it may be decided
	askedAt time.Time
}

func (c *call) args() []any {
	args := []any{c.id, c.text, c.last, c.epoch, c.seen, c.keep, c.lastAt, rand.Text(), c.until}
	for _, k := range c.checks {
		length, ends := k.Length.Microseconds(), int64(0)
		if !k.Ends.IsZero() {
			length, ends = k.From.UnixMicro(), k.Ends.UnixMicro()
		}
		args = append(args, k.Limit, length, ends, int64(k.Max), int64(k.Cost), asInt(k.Observes))
	}
	return args
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A reply is the answer to a call.
type reply struct {
	word        string
	time, clock int64 // the engine's TIME; the time of the log's newest entry
	at          int64 // of the entry; until when it is quiet; else the log's now
	text        string
	was         string // of a settlement: the grant before it
	limits      []limitReply
}

// A limitReply is what a reply says of one check.
type limitReply struct {
	used          quota.Units
	closed        quota.Closed
	retry         int64 // 0: it fits
	missing, from int64 // of a walk that did not end; missing 0: where a sliding window begins
}

var errReply = fmt.Errorf("%w: a script answered in an unknown form", quota.ErrOutcomeUnknown)

// A reader takes values from a script's answer.
type reader struct {
	values []any
	wrong  bool
}

func take[T any](r *reader) (v T) {
	ok := false
	if len(r.values) > 0 {
		v, ok = r.values[0].(T)
		r.values = r.values[1:]
	}
	r.wrong = r.wrong || !ok
	return v
}

func (r *reader) text() string { return take[string](r) }
func (r *reader) int() int64   { return take[int64](r) }

// parseReply reads the answer of acquire and correct.
func parseReply(values []any) (r reply, err error) {
	in := reader{values: values}
	r.word, r.time, r.clock = in.text(), in.int(), in.int()
	switch r.word {
	case granted:
		r.at, r.text = in.int(), in.text()
		for len(in.values) > 0 {
			r.limits = append(r.limits, limitReply{used: quota.Units(in.int())})
		}
	case fits, denied:
		r.at = in.int()
		for len(in.values) > 0 {
			l := limitReply{used: quota.Units(in.int()), closed: closedBy(in.text()), retry: in.int()}
			l.missing, l.from = in.int(), in.int()
			r.limits = append(r.limits, l)
		}
	case done:
		r.at, r.text, r.was = in.int(), in.text(), in.text()
	case again:
		r.at, r.text = in.int(), in.text()
	case quiet, clock, gone, over:
		r.at = in.int()
	case lost, late, busy:
	default:
		in.wrong = true
	}
	if in.wrong {
		return r, errReply
	}
	return r, nil
}

// run has the engine answer a call, in as many pages as that takes.
func (l *log) run(ctx context.Context, c *call) (r reply, err error) {
	script, args := Acquire, c.args()
	if c.correct {
		script = Correct
	}
	for r.word = busy; r.word == busy; {
		values, err := l.engine.Run(ctx, l.name, script, args)
		if err != nil {
			return r, err
		}
		if r, err = parseReply(values); err != nil {
			return r, err
		}
	}
	if decided := r.word == granted || r.word == fits || r.word == denied; decided && len(r.limits) != len(c.checks) {
		return r, errReply
	}
	for i, k := range c.checks {
		if r.word != denied || r.limits[i].missing == 0 {
			continue
		}
		limit, at := &r.limits[i], r.at+k.Length.Microseconds()
		if k.Cost <= k.Max { // else it never fits, however long the walk
			if at, _, err = l.walk(ctx, k, limit.from, limit.missing); err != nil {
				return r, err
			}
		}
		limit.retry = max(limit.retry, at)
	}
	return r, nil
}

// walk returns when missing units have left a sliding window, and what the last entry that has to leave counts in it.
func (l *log) walk(ctx context.Context, k quota.Check, from, missing int64) (at, units int64, err error) {
	for missing > 0 {
		values, err := l.engine.Run(ctx, l.name, Walk, []any{k.Limit, from, missing, k.Length.Microseconds()})
		if err != nil {
			return 0, 0, err
		}
		in := reader{values: values}
		if from, missing, units = in.int(), in.int(), in.int(); in.wrong {
			return 0, 0, errReply
		}
	}
	return from, units, nil
}
