package redisledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
)

// aheadTime is how far a log may be ahead of Redis' clock before people are told.
const aheadTime = 10 * time.Second

// Health implements quota.Ledger.
func (l *Ledger) Health(ctx context.Context) quota.Health {
	h := quota.Health{Backend: "redis", State: "ok", Reachable: true}
	if err := l.client.Ping(ctx).Err(); err != nil {
		h.State, h.Reachable = "unreachable: "+err.Error(), false
		l.untold.Store(false) // another server may answer next
	} else {
		h.Warnings = l.unsafeSettings(ctx)
	}
	if failing := l.failing.Load(); failing != nil {
		h.Warnings = append(h.Warnings, fmt.Sprintf("%v: if the ledger lost its log now, grants would be forgotten", *failing))
	}
	if l.journal != nil {
		if n := l.journal.unreadable(); n > 0 {
			h.Warnings = append(h.Warnings, quota.Count(n, "line", "lines")+" of the journal cannot be read: what they knew is not put back after a loss")
		}
	}
	l.accounts.Range(func(_, value any) bool {
		value.(*account).health(&h)
		return true
	})
	return h
}

// health adds what an operator should know about an account.
func (a *account) health(h *quota.Health) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ahead > aheadTime {
		h.Warnings = append(h.Warnings, fmt.Sprintf("%s: the log is %v ahead of Redis' clock, and nothing leaves it until then: set the clock right, or quotactl reset %s",
			a.name, a.ahead.Round(time.Second), a.name))
	}
	h.Warnings = append(h.Warnings, a.differences...)
	if a.down == nil || a.credential == nil {
		return
	}
	h.Reachable = false
	h.State = fmt.Sprintf("%s: %v", a.name, a.down)
	spent := quota.Units(0)
	for _, g := range a.offline {
		if g.pending {
			spent += g.units
		}
	}
	if spent > 0 {
		h.Warnings = append(h.Warnings, fmt.Sprintf("%s: %s of %s are granted without the ledger", a.name, quota.Thousands(spent), a.policy.Units.Text()))
	}
}

// unsafeSettings names the server's settings under which grants could be lost
// without anybody having made a mistake. A server that does not tell, because
// CONFIG is renamed or forbidden, is taken at its word.
func (l *Ledger) unsafeSettings(ctx context.Context) []string {
	var warnings []string
	if policy := l.setting(ctx, "maxmemory-policy"); policy != "" && policy != "noeviction" {
		warnings = append(warnings, fmt.Sprintf("maxmemory-policy is %s: Redis may evict the log, set it to noeviction", policy))
	}
	aof, save := l.setting(ctx, "appendonly"), l.setting(ctx, "save")
	switch {
	case aof == "no" && save == "":
		warnings = append(warnings, "nothing is persisted: a restart of Redis loses the log, set appendonly to yes")
	case aof == "no":
		warnings = append(warnings, "only snapshots are persisted: a crash of Redis loses the grants since the last one, set appendonly to yes")
	}
	return warnings
}

func (l *Ledger) setting(ctx context.Context, name string) string {
	if l.untold.Load() {
		return ""
	}
	values, err := l.client.ConfigGet(ctx, name).Result()
	if refusal := redis.Error(nil); errors.As(err, &refusal) {
		l.untold.Store(true)
	}
	if err != nil {
		return ""
	}
	return values[name]
}
