package redisledger

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
)

// patient has calls wait for their answers, on a busy machine too.
func patient(l *Store) *Store {
	l.config.Deadline = hanging
	switch client := l.current().(type) {
	case *redis.Client:
		client.Options().ReadTimeout, client.Options().WriteTimeout = hanging, hanging
	case *redis.ClusterClient:
		client.Options().ReadTimeout, client.Options().WriteTimeout = hanging, hanging
	}
	return l
}

// clientHarness opens stores of client limits on one server, on the test's clock. Redis lets a record expire by its own
// clock, on which the test's hours are seconds.
func clientHarness(server *redistest.Server) ledgertest.ClientHarness {
	var join func(t testing.TB) clientlimit.Store
	var opened atomic.Int64
	return ledgertest.ClientHarness{
		Open: func(t testing.TB, clock *ledgertest.Clock) (clientlimit.Store, func() clientlimit.Store) {
			config := Config{Addrs: []string{server.Addr}, KeyPrefix: fmt.Sprintf("suite%d:", opened.Add(1))}
			client, key := connect(t, config), config.KeyPrefix+"clock"
			clock.OnSet(func(now time.Time) {
				if err := client.Set(context.Background(), key, now.UnixMilli(), 0).Err(); err != nil {
					t.Error(err)
				}
			})
			join = func(t testing.TB) clientlimit.Store {
				l, err := openStore(config, guarded(t, "'"+key+"'"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { l.Close() })
				return patient(l)
			}
			return join(t), func() clientlimit.Store { return join(t) }
		},
		Join: func(t testing.TB) clientlimit.Store { return join(t) },
	}
}

func TestClients(t *testing.T) {
	t.Parallel()
	ledgertest.RunClients(t, clientHarness(redistest.Start(t)))
}

// A log that is not enforced forgets its oldest grants, and what it decides costs the same as with few.
func TestLogsAreBounded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l, c := patient(openStoreAt(t, Config{Addrs: []string{server.Addr}})), hourly()
	c.Algorithm, c.Limits[0].Units = clientlimit.Log, 100_000
	if _, err := takeOne(t.Context(), l, c, "alice"); err != nil {
		t.Fatal(err)
	}
	key := server.Do(t, "KEYS", "*:c:*").([]any)[0].(string)
	server.Do(t, "EVAL", `local now = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
		redis.call('DEL', KEYS[1])
		for i = 1, 100000 do redis.call('ZADD', KEYS[1], now - 100000 + i, i .. ' 1') end`, "1", key)
	if d, err := takeOne(t.Context(), l, c, "alice"); err != nil || d.Reason != quota.LimitExceeded || d.Remaining() != 0 {
		t.Errorf("got %+v, %v, want a denial by 100,000 units", d, err)
	}
	c.Limits[0].DryRun = true
	for range 3 {
		if _, err := takeOne(t.Context(), l, c, "alice"); err != nil {
			t.Fatal(err)
		}
	}
	if n := server.Do(t, "ZCARD", key); n != int64(100_000) {
		t.Errorf("the log has %v entries", n)
	}
}

// By night, 20,000 histories of each algorithm: QUOTAD_TEST_LONG=20000.
func TestRandomClients(t *testing.T) {
	t.Parallel()
	ledgertest.RandomClients(t, clientHarness(redistest.Start(t)), 1000)
}
