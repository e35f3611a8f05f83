package redisledger

import (
	"context"
	"fmt"
	"slices"
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
func (l *Ledger) Restore(ctx context.Context, c *quota.Credential, records []quota.Entry, rest time.Duration) error {
	return l.putBack(ctx, c, records, rest, true)
}

// BookBack implements quota.Restorer.
func (l *Ledger) BookBack(ctx context.Context, c *quota.Credential, records []quota.Entry) error {
	return l.putBack(ctx, c, records, 0, false)
}

// putBack puts records into the log that is there, whichever it is, or else into the
// one that is known. When the log is lost on the way, so is what was put into it: the
// calls that follow the first one do not begin another. Until all is there the log is
// not known: what breaks off is begun again.
func (l *Ledger) putBack(ctx context.Context, c *quota.Credential, records []quota.Entry, rest time.Duration, whichever bool) error {
	records = slices.SortedStableFunc(slices.Values(records), func(a, b quota.Entry) int { return a.ID.Compare(b.ID) })
	mark, newest := l.Known(c.Name), newestOfLedger(records)
	for {
		n := min(len(records), restoreStep)
		args := append(make([]any, 0, 4+9*n), flag(whichever), newest, rest.Milliseconds(), n)
		for _, r := range records[:n] {
			args = appendRecord(args, r)
		}
		r, err := l.once(ctx, c, verb{script: l.scripts.restore, name: l.call(), args: args, known: &mark})
		switch {
		case err != nil:
			return err
		case r.status == "lost":
			return errLost
		case r.status == "period" && ctx.Err() != nil:
			return outOfTime(ctx.Err())
		case r.status == "period":
			continue
		}
		mark, whichever = r.mark, false
		if records = records[n:]; len(records) == 0 {
			l.Expect(c.Name, mark)
			return nil
		}
	}
}

// flag is how a script is told of a choice.
func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// newestOfLedger is the ms of the newest of the records that the ledger granted: the
// numbers from 2^16 to 2^48 are those that hosts draw, see advance_id of the prelude.
func newestOfLedger(records []quota.Entry) int64 {
	newest := int64(0)
	for _, r := range records {
		if r.ID.Seq < 1<<16 || r.ID.Seq >= 1<<48 {
			newest = max(newest, r.ID.Ms)
		}
	}
	return newest
}

func appendRecord(args []any, r quota.Entry) []any {
	list := make([]string, len(r.Charges))
	for i, charge := range r.Charges {
		list[i] = fmt.Sprintf("%s=%d", charge.Limit, charge.Units)
	}
	settled := ""
	if r.Settled {
		settled = fmt.Sprint(int64(r.SettledTo))
	}
	return append(args, r.ID.String(), r.Operation, int64(r.Count), r.By, r.Region, strings.Join(list, " "), r.Key, noteOf(r), settled)
}
