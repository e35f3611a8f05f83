package redisledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"quotad/quota"
)

// A rest is that of a log after a loss, as it is seen from here. Its time is the
// daemon's: a rest on Redis' clock would be over when somebody sets that clock.
type rest struct {
	name   string
	seen   time.Time // last
	waited time.Duration
}

// attention is the longest between two looks at a rest that counts as waiting. Who
// cannot look for longer has found Redis unreachable, as others may have who have
// records to put back.
const attention = 500 * time.Millisecond

// endRest ends a log's rest if it has lasted as long as its name says. If it has
// not, that is the error.
func (l *Ledger) endRest(ctx context.Context, c *quota.Credential, r reply) error {
	if len(r.rest) != 1 {
		return errReply
	}
	name, _ := r.rest[0].(string)
	_, ms, _ := strings.Cut(name, "/")
	length, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return errReply
	}
	if l.waited(c.Name, name) < time.Duration(length)*time.Millisecond {
		return fmt.Errorf("%w: every daemon is putting back what it knows", quota.ErrRecovering)
	}
	_, err = l.once(ctx, c, verb{script: l.scripts.wake, name: l.call(), args: []any{name}})
	return err
}

// waited takes in that a credential's log rests, and returns for how long it has
// been seen to.
func (l *Ledger) waited(credential, name string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, now := l.rests[credential], time.Now()
	if known.name != name {
		known = rest{name: name, seen: now}
	}
	known.waited += min(now.Sub(known.seen), attention)
	known.seen = now
	l.rests[credential] = known
	return known.waited
}
