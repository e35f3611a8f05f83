package main

import (
	"sync"
	"sync/atomic"
	"testing"

	"quotad/quota/redisledger/redistest"
)

// Whatever a daemon granted before kill -9 is debited after the restart, and
// nothing else but what was asked for and not answered.
func TestKilledDaemonKeepsItsGrants(t *testing.T) {
	ledgers := map[string]func(t *testing.T) string{
		"embedded": func(*testing.T) string { return onFile },
		"redis":    func(t *testing.T) string { return onRedis(redistest.Start(t).Addr) },
	}
	for name, ledger := range ledgers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			write(t, dir, "config.toml", "[ledger]\n"+ledger(t)+oneCredential)
			granted, unanswered := spendUntilKilled(t, dir)
			startIn(t, dir)
			if used := usedNow(t, clientIn(dir)); used < granted || used > granted+unanswered {
				t.Errorf("%d units are debited after %d grants and %d calls that were not answered", used, granted, unanswered)
			}
		})
	}
}

// spendUntilKilled lets clients spend from a daemon until it has granted a
// number of calls, and kills it while they go on.
func spendUntilKilled(t *testing.T, dir string) (granted, unanswered int64) {
	t.Helper()
	const clients, enough = 8, 300
	daemon := startIn(t, dir)
	var grants, failures atomic.Int64
	var spending sync.WaitGroup
	killed := sync.OnceFunc(daemon.kill)
	for range clients {
		spending.Go(func() {
			client := clientIn(dir)
			for {
				d, err := spend(client)
				if err != nil || !d.Granted {
					failures.Add(1)
					return
				}
				if grants.Add(1) >= enough {
					killed()
				}
			}
		})
	}
	spending.Wait()
	killed() // also if nothing was granted
	return grants.Load(), failures.Load()
}
