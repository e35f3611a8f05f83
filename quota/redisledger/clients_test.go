package redisledger

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/lua"
	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
)

// clockOfClients is the key of the time behind the same prefix as a subject's.
const clockOfClients = "string.sub(KEYS[1], 1, -14) .. 'clock'"

// clientScripts are the scripts on a clock of the test. A record outlives its time by a
// day: Redis lets it expire by its own clock, on which the test's hours are seconds.
func clientScripts(t testing.TB, clock string) lua.Scripts {
	return rewritten(guarded(t, clock), func(script string) string {
		return strings.NewReplacer("'PX', ", "'PX', 86400000 + ", "'PEXPIRE', subject, ", "'PEXPIRE', subject, 86400000 + ").Replace(script)
	})
}

// patient has calls wait for their answers, on a busy machine too.
func patient(l *Store) *Store {
	l.patience = hanging
	switch client := l.current().(type) {
	case *redis.Client:
		client.Options().ReadTimeout, client.Options().WriteTimeout = hanging, hanging
	case *redis.ClusterClient:
		client.Options().ReadTimeout, client.Options().WriteTimeout = hanging, hanging
	}
	return l
}

// clientHarness opens ledgers of client limits on one server, each under a key prefix of its own.
func clientHarness(server *redistest.Server) ledgertest.ClientHarness {
	var join func(t testing.TB) ledgertest.ClientLedger
	return ledgertest.ClientHarness{
		Open: func(t testing.TB, clock *ledgertest.Clock) (ledgertest.ClientLedger, func() ledgertest.ClientLedger) {
			config := Config{Addrs: []string{server.Addr}, KeyPrefix: "quotad:" + t.Name() + ":"}
			client := connect(t, config)
			clock.OnSet(func(now time.Time) {
				if err := client.Set(context.Background(), config.KeyPrefix+"clock", now.UnixMilli(), 0).Err(); err != nil {
					t.Error(err)
				}
			})
			join = func(t testing.TB) ledgertest.ClientLedger {
				l, err := openStore(config, clientScripts(t, clockOfClients))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { l.Close() })
				return clientlimit.Decider{Store: patient(l), Kept: clientlimit.NewCache(clock.Now)}
			}
			return join(t), func() ledgertest.ClientLedger { return join(t) }
		},
		Join: func(t testing.TB) ledgertest.ClientLedger { return join(t) },
	}
}

func TestClients(t *testing.T) {
	t.Parallel()
	ledgertest.RunClients(t, clientHarness(redistest.Start(t)))
}

// Two hosts ask for one subject all the time: together they are granted what its limit has, and
// one that lost each time says so, and that nothing was debited.
func TestHostsSwapOneRecord(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr
	c := &clientlimit.Clients{Name: "public", Limits: []quota.Limit{{Name: "daily", Units: 300, Window: quota.Sliding(24 * time.Hour)}}}
	for _, algorithm := range []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter} {
		c.Algorithm = algorithm
		var granted, contended atomic.Int64
		var hosts sync.WaitGroup
		for range 4 {
			l, err := OpenStore(Config{Addrs: []string{addr}})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			patient(l)
			hosts.Go(func() {
				for range 150 {
					d, err := takeOne(t.Context(), l, c, "=alice")
					switch {
					case errors.Is(err, quota.ErrContended):
						contended.Add(1)
					case err != nil:
						t.Error(err)
					case d.Granted():
						granted.Add(1)
					}
				}
			})
		}
		hosts.Wait()
		if granted.Load() != 300 {
			t.Errorf("%s: %d units of 300 were granted, and %d asks lost each time", algorithm, granted.Load(), contended.Load())
		}
	}
	l := openStoreAt(t, Config{Addrs: []string{addr}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := takeOne(ctx, l, c, "=alice"); !errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
}
