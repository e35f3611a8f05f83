package slidinglog

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"quotad/quota"
)

// A Script is one of package lua, which an engine runs.
type Script string

// The scripts of a log, and that of its hosts.
const (
	Acquire Script = "acquire"
	Correct Script = "correct"
	Walk    Script = "walk"
	Restore Script = "restore"
	Mirror  Script = "mirror"
	Hosts   Script = "hosts"
)

// AllHosts is the name under which an engine keeps the hash of the daemons, where else a credential stands. No
// credential has it.
const AllHosts = ":hosts"

// An Engine runs the scripts, one at a time for each credential: Redis, or a Memory. It is safe for concurrent use.
type Engine interface {
	// Run runs a script on the log of a credential. Its errors wrap quota.ErrUnavailable if nothing was done, and
	// quota.ErrOutcomeUnknown if that is not known; no call is repeated. A reply has int64 and string.
	Run(ctx context.Context, credential string, s Script, args []any) ([]any, error)
	// Shared reports whether other hosts may use the same logs.
	Shared() bool
	// Health returns the settings under which the logs could be lost, and why the engine cannot be used.
	Health(ctx context.Context) (warnings []string, err error)
	Close() error
}

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

// A known is what a host knows of a log, and says with each call, so that a log that lacks something is noticed.
type known struct {
	epoch  string // of the log; empty: none is known
	seen   int64  // the newest time of it
	last   string // the newest entry in the journal that was in it
	lastAt int64
	keep   int64 // µs; the greatest of all hosts
}

// A call is what a host asks of a log: to decide checks, or to correct.
type call struct {
	id, text string // no id: it only looks
	checks   []quota.Check
	at       func(now time.Time) []quota.Check // the checks, at the log's time
	correct  bool

	known
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
	time, clock int64  // the engine's TIME; the time of the log's newest entry
	at          int64  // of the entry; until when it is quiet; else the log's now
	text, was   string // the entry; of a settlement also the grant before it
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

// A reader takes values from a script's answer. What has another type is a zero value, and makes the answer wrong.
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
func (r *reader) more() bool   { return len(r.values) > 0 && !r.wrong }

// parseReply reads the answer of acquire and correct.
func parseReply(values []any) (r reply, err error) {
	in := reader{values: values}
	r.word, r.time, r.clock = in.text(), in.int(), in.int()
	if in.more() {
		r.at = in.int()
	}
	if in.more() {
		r.text, r.was = in.text(), in.text()
	}
	for in.more() {
		l := limitReply{used: quota.Units(in.int()), closed: closedBy(in.text()), retry: in.int()}
		l.missing, l.from = in.int(), in.int()
		r.limits = append(r.limits, l)
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
		if err == nil {
			r, err = parseReply(values)
		}
		if err != nil {
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
