package redisledger

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/lua"
	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
)

// harness opens ledgers on one server: a real Redis in everything but the clock.
func harness(t testing.TB, server *redistest.Server) ledgertest.Harness {
	return harnessOf(t, Config{Addrs: []string{server.Addr}})
}

func harnessOf(t testing.TB, config Config) ledgertest.Harness {
	return opener{config: config, clocks: []string{"clock"}, scripts: onClock(t, clockOfPrefix)}.harness()
}

// An opener opens ledgers, each under a key prefix of its own.
type opener struct {
	config  Config
	clocks  []string // the keys, behind the prefix, that hold the time
	scripts lua.Scripts
}

func (o opener) harness() ledgertest.Harness {
	var join func() quota.Ledger
	return ledgertest.Harness{
		Open: func(t testing.TB, clock *ledgertest.Clock) (l quota.Ledger, reopen func() quota.Ledger) {
			l, reopen, join = o.open(t, clock)
			return l, reopen
		},
		Join: func(testing.TB) quota.Ledger { return join() },
	}
}

func (o opener) open(t testing.TB, clock *ledgertest.Clock) (l quota.Ledger, reopen, join func() quota.Ledger) {
	config := o.config
	config.KeyPrefix = "quotad:" + t.Name() + ":"
	client := connect(t, config)
	clock.OnSet(func(now time.Time) {
		for _, key := range o.clocks {
			if err := client.Set(context.Background(), config.KeyPrefix+key, now.UnixMilli(), 0).Err(); err != nil {
				t.Error(err)
			}
		}
	})
	open := func(daemon string) quota.Ledger {
		config.Daemon = daemon
		l, err := open(config, Local{}, o.scripts)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	reopen = func() quota.Ledger { return open("test") }
	joined := 0
	return reopen(), reopen, func() quota.Ledger {
		joined++
		return open(fmt.Sprint("other", joined))
	}
}

func connect(t testing.TB, config Config) redis.UniversalClient {
	t.Helper()
	client, err := config.client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, harness(t, redistest.Start(t)))
}

func TestRandomHistories(t *testing.T) {
	t.Parallel()
	ledgertest.Random(t, harness(t, redistest.Start(t)))
}
