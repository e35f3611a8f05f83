package redisledger

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Hosts is what the hosts that run the same jobs share about them: who runs which
// slot, how the job stands, and what became of its runs. It is kept beside the ledger, under the
// same prefix, on the same clock. Any number of goroutines may use it at the same
// time. An error is quota.ErrUnavailable or quota.ErrOutcomeUnknown, unless it
// says that a slot is too old.
type Hosts struct {
	store *Store
}

// Hosts returns what the hosts share beside this store. It ends with the store.
func (s *Store) Hosts() Hosts { return Hosts{store: s} }

// stateKept is how long what is shared about a job outlives its last use.
const stateKept = 100 * 24 * time.Hour

const (
	// linesKept is how many lines about a job's runs are kept, about.
	linesKept = 2000
	// linesRead is how many of them are read at once.
	linesRead = 500
)

// state is the key of what is shared about a job. A job's keys have a hash tag of
// their own.
func (h Hosts) state(job string) string { return h.store.prefix + "{job:" + job + "}:state" }

func (h Hosts) runs(job string) string { return h.store.prefix + "{job:" + job + "}:runs" }

func (h Hosts) slot(job string, slot time.Time) string {
	return h.store.prefix + "{job:" + job + "}:slot:" + strconv.FormatInt(slot.UnixMilli(), 10)
}

// Claim takes a slot of a job for whoever asks first; asking again under the same
// name is answered the same. With a line, the claimant must hold the job, and the line
// is added to what became of its runs. It may be asked for until span after the slot, by
// Redis' clock. Before is the newest slot that was claimed until now, zero if none
// is known. A claim cannot be given back.
func (h Hosts) Claim(ctx context.Context, job, claimant string, slot time.Time, span time.Duration, line string) (mine bool, before time.Time, err error) {
	keys := []string{h.slot(job, slot), h.state(job), h.runs(job)}
	status, rest, err := h.call(ctx, h.store.scripts.claim, keys, slot.UnixMilli(), claimant, span.Milliseconds(), stateKept.Milliseconds(), line, linesKept)
	if err != nil {
		return false, time.Time{}, err
	}
	if len(rest) != 2 {
		return false, time.Time{}, errReply
	}
	now, ok1 := rest[0].(int64)
	newest, ok2 := rest[1].(int64)
	if !ok1 || !ok2 {
		return false, time.Time{}, errReply
	}
	if status == "late" {
		late := time.UnixMilli(now).Sub(slot).Round(time.Second)
		return false, time.Time{}, fmt.Errorf("slot %v of job %q was %v ago by redis' clock: is the clock of this host right?", slot, job, late)
	}
	return status == "mine", instant(newest), nil
}

// Lock gives a job to a holder for a time. If another one holds it, left is for how
// long still, unless that one goes on. A lock that was not given back in time is named
// first, as lapsed, and given to who names it as watched. It is not given for a slot, if
// it is not zero, that somebody else has claimed: then taken is true.
func (h Hosts) Lock(ctx context.Context, job, holder string, length time.Duration, watched string, slot time.Time) (left time.Duration, lapsed string, taken bool, err error) {
	keys := []string{h.state(job)}
	if !slot.IsZero() {
		keys = append(keys, h.slot(job, slot))
	}
	status, rest, err := h.call(ctx, h.store.scripts.hold, keys, holder, length.Milliseconds(), stateKept.Milliseconds(), watched)
	if err != nil || status == "held" || status == "taken" {
		return 0, "", status == "taken", err
	}
	if len(rest) != 1 {
		return 0, "", false, errReply
	}
	switch what := rest[0].(type) {
	case int64:
		return time.Duration(what) * time.Millisecond, "", false, nil
	case string:
		return 0, what, false, nil
	}
	return 0, "", false, errReply
}

// Append adds lines to what became of a job's runs. It replaces parts of what is shared
// about the job, and has the holder keep the lock for a time, or give it back after no
// time: unless another one has taken the job since, then only the lines are added, and
// held is false. Parts that anybody may replace have no holder.
func (h Hosts) Append(ctx context.Context, job, holder string, length time.Duration, parts map[string]string, lines []string) (held bool, err error) {
	args := []any{holder, length.Milliseconds(), stateKept.Milliseconds(), linesKept, len(parts)}
	for name, text := range parts {
		args = append(args, name, text)
	}
	for _, line := range lines {
		args = append(args, line)
	}
	status, _, err := h.call(ctx, h.store.scripts.save, []string{h.state(job), h.runs(job)}, args...)
	return status == "saved", err
}

// Load returns what is shared about a job, by part, who holds it now, and the lines
// behind the one named after, of which last is the name of the last.
func (h Hosts) Load(ctx context.Context, job, after string) (parts map[string]string, holder string, lines []string, last string, err error) {
	for last = after; ; {
		var more []string
		if parts, holder, more, last, err = h.load(ctx, job, last); err != nil {
			return nil, "", nil, "", err
		}
		lines = append(lines, more...)
		if len(more) < linesRead {
			return parts, holder, lines, last, nil
		}
	}
}

func (h Hosts) load(ctx context.Context, job, after string) (parts map[string]string, holder string, lines []string, last string, err error) {
	holder, rest, err := h.call(ctx, h.store.scripts.load, []string{h.state(job), h.runs(job)}, after, linesRead)
	if err != nil {
		return nil, "", nil, "", err
	}
	n, ok := int64(0), len(rest) > 0
	if ok {
		n, ok = rest[0].(int64)
	}
	if !ok || len(rest)%2 == 0 || int64(len(rest)) < 1+2*n {
		return nil, "", nil, "", errReply
	}
	parts, last = make(map[string]string, n), after
	for i := 1; i < len(rest); i += 2 {
		name, ok1 := rest[i].(string)
		text, ok2 := rest[i+1].(string)
		if !ok1 || !ok2 {
			return nil, "", nil, "", errReply
		}
		if int64(i) < 1+2*n {
			parts[name] = text
		} else {
			lines, last = append(lines, text), name
		}
	}
	return parts, holder, lines, last, nil
}

// call calls a script whose answer begins with a text.
func (h Hosts) call(ctx context.Context, script *redis.Script, keys []string, args ...any) (first string, rest []any, err error) {
	value, err := h.store.run(ctx, script, keys, args...)
	if err != nil {
		return "", nil, err
	}
	values, _ := value.([]any)
	if len(values) == 0 {
		return "", nil, errReply
	}
	first, ok := values[0].(string)
	if !ok {
		return "", nil, errReply
	}
	return first, values[1:], nil
}
