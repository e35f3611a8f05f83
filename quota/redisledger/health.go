package redisledger

import (
	"context"
	"fmt"
)

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
	values, err := l.client.ConfigGet(ctx, name).Result()
	if err != nil {
		return ""
	}
	return values[name]
}
