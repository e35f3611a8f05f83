package redisledger

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Fleet is what the hosts that run the same jobs share about them: who runs
// which slot, and how the job stands. It is kept beside the ledger, under the
// same prefix, on the same clock. Any number of goroutines may use it at the same
// time. An error is quota.ErrUnavailable or quota.ErrOutcomeUnknown, unless it
// says that a slot is too old.
type Fleet struct {
	ledger *Ledger
}

// Fleet returns what the hosts share beside this ledger. It ends with the ledger.
func (l *Ledger) Fleet() Fleet { return Fleet{ledger: l} }

// deskKept is how long what is shared about a job outlives its last use.
const deskKept = 100 * 24 * time.Hour

// desk is the key of what is shared about a job. A job's keys have a hash tag of
// their own.
func (f Fleet) desk(job string) string { return f.ledger.prefix + "{job:" + job + "}:desk" }

func (f Fleet) slot(job string, slot time.Time) string {
	return f.ledger.prefix + "{job:" + job + "}:slot:" + strconv.FormatInt(slot.UnixMilli(), 10)
}

// Claim takes a slot of a job for whoever asks first; asking again under the same
// name is answered the same. It may be asked for until span after the slot, by
// Redis' clock. Before is the newest slot that was claimed until now, zero if none
// is known. A claim cannot be given back.
func (f Fleet) Claim(ctx context.Context, job, claimant string, slot time.Time, span time.Duration) (mine bool, before time.Time, err error) {
	keys := []string{f.slot(job, slot), f.desk(job)}
	status, rest, err := f.call(ctx, f.ledger.scripts.claim, keys, slot.UnixMilli(), claimant, span.Milliseconds(), deskKept.Milliseconds())
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

// Hold gives a job to a holder for a time. If another one holds it, left is for
// how long still, unless that one goes on.
func (f Fleet) Hold(ctx context.Context, job, holder string, length time.Duration) (left time.Duration, err error) {
	status, rest, err := f.call(ctx, f.ledger.scripts.hold, []string{f.desk(job)}, holder, length.Milliseconds(), deskKept.Milliseconds())
	if err != nil || status == "held" {
		return 0, err
	}
	if len(rest) != 1 {
		return 0, errReply
	}
	ms, ok := rest[0].(int64)
	if !ok {
		return 0, errReply
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// Save replaces parts of what is shared about a job, and has the holder go on for
// a time, or let go after no time. It is false, and nothing is replaced, if another
// one has taken the job since. Parts that anybody may replace have no holder.
func (f Fleet) Save(ctx context.Context, job, holder string, length time.Duration, parts map[string]string) (held bool, err error) {
	args := make([]any, 0, 3+2*len(parts))
	args = append(args, holder, length.Milliseconds(), deskKept.Milliseconds())
	for name, text := range parts {
		args = append(args, name, text)
	}
	status, _, err := f.call(ctx, f.ledger.scripts.save, []string{f.desk(job)}, args...)
	return status == "saved", err
}

// Load returns what is shared about a job, by part, and who holds it now.
func (f Fleet) Load(ctx context.Context, job string) (parts map[string]string, holder string, err error) {
	holder, rest, err := f.call(ctx, f.ledger.scripts.load, []string{f.desk(job)})
	if err != nil {
		return nil, "", err
	}
	parts = make(map[string]string, len(rest)/2)
	for i := 0; i+1 < len(rest); i += 2 {
		name, ok1 := rest[i].(string)
		text, ok2 := rest[i+1].(string)
		if !ok1 || !ok2 {
			return nil, "", errReply
		}
		parts[name] = text
	}
	return parts, holder, nil
}

// call calls a script whose answer begins with a text.
func (f Fleet) call(ctx context.Context, script *redis.Script, keys []string, args ...any) (first string, rest []any, err error) {
	values, err := f.ledger.run(ctx, script, keys, args)
	if err != nil {
		return "", nil, err
	}
	if len(values) == 0 {
		return "", nil, errReply
	}
	first, ok := values[0].(string)
	if !ok {
		return "", nil, errReply
	}
	return first, values[1:], nil
}
