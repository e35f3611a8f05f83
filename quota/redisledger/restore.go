package redisledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"quotad/quota"
)

// Check implements quota.Restorer. It also finds out what became of a call that was
// not answered: if nothing is acquired here for long, others need what it holds.
func (l *Ledger) Check(ctx context.Context, c *quota.Credential) error {
	lane := l.lane(c.Name)
	lane.Lock()
	defer lane.Unlock()
	if err := l.resolve(ctx, c, lane); err != nil {
		return err
	}
	_, err := l.do(ctx, c, verb{script: l.scripts.acquire, name: l.call(), args: []any{0}})
	return err
}

// restoreStep is how many records one call puts back.
const restoreStep = 256

// Restore implements quota.Restorer. Afterwards the log as it is then is the one
// that is known: what other daemons have to put back is for them to miss.
func (l *Ledger) Restore(ctx context.Context, c *quota.Credential, records []quota.Record, rest time.Duration) error {
	return l.putBack(ctx, c, records, rest, true)
}

// BookBack implements quota.Restorer.
func (l *Ledger) BookBack(ctx context.Context, c *quota.Credential, records []quota.Record) error {
	return l.putBack(ctx, c, records, 0, false)
}

// putBack puts records into the log that is there, whichever it is, or else into the
// one that is known. When the log is lost on the way, so is what was put into it: the
// calls that follow the first one do not begin another.
func (l *Ledger) putBack(ctx context.Context, c *quota.Credential, records []quota.Record, rest time.Duration, whichever bool) error {
	for ; ; whichever = false {
		n := min(len(records), restoreStep)
		args := append(make([]any, 0, 2+9*n), rest.Milliseconds(), n)
		for _, r := range records[:n] {
			args = appendRecord(args, r)
		}
		r, err := l.once(ctx, c, verb{script: l.scripts.restore, name: l.call(), args: args, whichever: whichever})
		if err != nil {
			return err
		}
		if r.status == "lost" {
			return errLost
		}
		l.Expect(c.Name, r.mark)
		if records = records[n:]; len(records) == 0 {
			return nil
		}
	}
}

func appendRecord(args []any, r quota.Record) []any {
	list := make([]string, len(r.Recorded))
	for i, charge := range r.Recorded {
		list[i] = fmt.Sprintf("%s=%d", charge.Limit, charge.Units)
	}
	settled := ""
	if r.Settled {
		settled = fmt.Sprint(int64(r.SettledTo))
	}
	return append(args, r.ID.String(), r.Operation, int64(r.Count), r.By, r.Region, strings.Join(list, " "), r.Key, r.Note, settled)
}
