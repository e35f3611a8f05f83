package redisledger

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/lua"
	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
)

// harness opens ledgers on one server: a real Redis in everything but the clock.
func harness(server *redistest.Server) ledgertest.Harness {
	return onTestClock(server.Addr, func(_ testing.TB, clock string) lua.Scripts { return lua.AllOnTestClock(clock) })
}

// onTestClock opens ledgers at one address, each under a key prefix of its own,
// where its scripts find the time too.
func onTestClock(addr string, scripts func(t testing.TB, clock string) lua.Scripts) ledgertest.Harness {
	return ledgertest.Harness{Open: func(t testing.TB, clock *ledgertest.Clock) (quota.Ledger, func() quota.Ledger) {
		config := Config{Addrs: []string{addr}, Daemon: "test", KeyPrefix: "quotad:" + t.Name() + ":"}
		key := config.KeyPrefix + "clock"
		client := connect(t, config)
		clock.OnSet(func(now time.Time) {
			if err := client.Set(context.Background(), key, now.UnixMilli(), 0).Err(); err != nil {
				t.Error(err)
			}
		})
		open := func() quota.Ledger {
			l, err := open(config, scripts(t, key))
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		return open(), open
	}}
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
	ledgertest.Run(t, harness(redistest.Start(t)))
}

// Half the steps that the contract asks of a CI run; the other ledger does the rest.
func TestRandomHistories(t *testing.T) {
	ledgertest.Random(t, harness(redistest.Start(t)), 50_000)
}
