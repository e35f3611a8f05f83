package redisledger

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/lua"
	"quotad/quota"
	"quotad/quota/boltledger"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

// harness opens ledgers on one server: a real Redis in everything but the clock.
func harness(t testing.TB, server *redistest.Server) ledgertest.Harness {
	return harnessOf(t, Config{Addrs: []string{server.Addr}})
}

func harnessOf(t testing.TB, config Config) ledgertest.Harness {
	return opener{config: config, clocks: []string{"clock"}, scripts: onClock(t, clockOfPrefix)}.harness()
}

// An opener opens ledgers, each under a key prefix of its own, with its file.
type opener struct {
	config  Config
	clocks  []string // the keys, behind the prefix, that hold the time
	scripts lua.Scripts
}

func (o opener) harness() ledgertest.Harness {
	var join func() quota.Ledger
	return ledgertest.Harness{
		Open: func(t testing.TB, clock *ledgertest.Clock) (l quota.Ledger, reopen func() quota.Ledger) {
			open := o.open(t, clock)
			dir, joined := t.TempDir(), 0
			join = func() quota.Ledger {
				joined++
				return open(filepath.Join(dir, fmt.Sprint("other", joined)))
			}
			reopen = func() quota.Ledger { return open(filepath.Join(dir, "host")) }
			return reopen(), reopen
		},
		Join: func(testing.TB) quota.Ledger { return join() },
	}
}

// open returns what opens the ledger of a host, by its file.
func (o opener) open(t testing.TB, clock *ledgertest.Clock) func(path string) quota.Ledger {
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
	begun, skew := clock.Now(), new(atomic.Int64)
	return func(path string) quota.Ledger {
		store, err := openStore(config, o.scripts)
		if err != nil {
			t.Fatal(err)
		}
		// The host's clock stands still, so that nothing is done beside the test: each look at
		// the log has the test's.
		now := func() time.Time { return begun.Add(time.Duration(skew.Load())) }
		return &patientLedger{Ledger: openLedger(t, store, path, slidinglog.Config{Clock: now}), skew: skew}
	}
}

// quickly is how long the logs of tests are quiet after a loss that wait for no more.
const quickly = 12 * time.Millisecond

// openLedger opens a ledger on a store, with its file.
func openLedger(t testing.TB, store slidinglog.Store, path string, config slidinglog.Config) *slidinglog.Ledger {
	t.Helper()
	file, err := boltledger.Open(boltledger.Config{Path: path, Unsynced: true, AcceptNew: true})
	if err != nil {
		t.Fatal(err)
	}
	config.File, config.Store, config.Deadline = file, store, hanging
	if config.Quiet == 0 {
		config.Quiet = quickly
	}
	l, err := slidinglog.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A patientLedger asks again what a log refuses that is not read yet, or quiet: an empty one may
// have been flushed.
type patientLedger struct {
	*slidinglog.Ledger
	skew  *atomic.Int64 // of the host's clock, which goes on while somebody waits
	ready sync.Map      // names of credentials whose logs were read
}

func patiently[T any](l *patientLedger, ctx context.Context, c *quota.Credential, f func() (T, error)) (T, error) {
	if _, ready := l.ready.Load(c.Name); !ready {
		if err := l.SetCredentials([]*quota.Credential{c}, nil); err != nil {
			var none T
			return none, err
		}
		// An operation that no policy opens is refused until then; a copy answers the others.
		closed := func() (quota.Decision, error) { return l.Ledger.Peek(ctx, c, []string{""}, nil, false) }
		if _, err := again(l, ctx, closed); err != nil {
			var none T
			return none, err
		}
		l.ready.Store(c.Name, true)
	}
	return again(l, ctx, f)
}

func again[T any](l *patientLedger, ctx context.Context, f func() (T, error)) (T, error) {
	for {
		result, err := f()
		if err == nil || ctx.Err() != nil || !errors.Is(err, quota.ErrRecovering) && !strings.Contains(err.Error(), "its log is being read") {
			return result, err
		}
		if l.skew != nil {
			l.skew.Add(int64(quickly / 12))
		}
		wait(ctx, time.Millisecond)
	}
}

func (l *patientLedger) Acquire(ctx context.Context, c *quota.Credential, asks []quota.Ask) ([]quota.Decision, error) {
	return patiently(l, ctx, c, func() ([]quota.Decision, error) { return l.Ledger.Acquire(ctx, c, asks) })
}

func (l *patientLedger) Peek(ctx context.Context, c *quota.Credential, operations []string, charges []quota.Charge, useReserve bool) (quota.Decision, error) {
	return patiently(l, ctx, c, func() (quota.Decision, error) { return l.Ledger.Peek(ctx, c, operations, charges, useReserve) })
}

func (l *patientLedger) Settle(ctx context.Context, c *quota.Credential, s quota.Settlement) (quota.Decision, error) {
	return patiently(l, ctx, c, func() (quota.Decision, error) { return l.Ledger.Settle(ctx, c, s) })
}

func (l *patientLedger) Adjust(ctx context.Context, c *quota.Credential, a quota.Adjustment) (quota.Decision, error) {
	return patiently(l, ctx, c, func() (quota.Decision, error) { return l.Ledger.Adjust(ctx, c, a) })
}

func (l *patientLedger) ChangeLimit(ctx context.Context, c *quota.Credential, k quota.Change) (bool, error) {
	return patiently(l, ctx, c, func() (bool, error) { return l.Ledger.ChangeLimit(ctx, c, k) })
}

func (l *patientLedger) Reset(ctx context.Context, c *quota.Credential, by quota.Caller, note string) error {
	_, err := patiently(l, ctx, c, func() (struct{}, error) { return struct{}{}, l.Ledger.Reset(ctx, c, by, note) })
	return err
}

func (l *patientLedger) Usage(ctx context.Context, c *quota.Credential) (quota.Usage, error) {
	return patiently(l, ctx, c, func() (quota.Usage, error) { return l.Ledger.Usage(ctx, c) })
}

func (l *patientLedger) Log(ctx context.Context, c *quota.Credential, q quota.LogQuery) (quota.LogPage, error) {
	return patiently(l, ctx, c, func() (quota.LogPage, error) { return l.Ledger.Log(ctx, c, q) })
}

// openAt opens a ledger on a server's own clock.
func openAt(t testing.TB, config Config) *patientLedger {
	t.Helper()
	l, _ := openBoth(t, config)
	return l
}

func openBoth(t testing.TB, config Config) (*patientLedger, *Store) {
	t.Helper()
	store, err := OpenStore(config)
	if err != nil {
		t.Fatal(err)
	}
	l := openLedger(t, store, filepath.Join(t.TempDir(), "ledger.db"), slidinglog.Config{})
	t.Cleanup(func() { l.Close() })
	return &patientLedger{Ledger: l}, store
}

func connect(t testing.TB, config Config) redis.UniversalClient {
	t.Helper()
	client := config.client(nil)
	t.Cleanup(func() { client.Close() })
	return client
}

// hundred is a credential of a hundred units a day.
func hundred() *quota.Credential {
	return &quota.Credential{
		Name:       "one",
		Limits:     []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}, "ten": {Every: 10}},
	}
}

// ask is an ask of hundred's, without an id if that is empty.
func ask(operation, id string) quota.Ask {
	units := hundred().Operations[operation].Every
	return quota.Ask{
		Request: quota.Request{Credential: "one", Operation: operation, Count: 1, RequestID: id, Caller: quota.Caller{UID: 1}},
		Charges: []quota.Charge{{Limit: "daily", Units: units}},
	}
}

func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, harness(t, redistest.Start(t)))
}

func TestRandomHistories(t *testing.T) {
	t.Parallel()
	ledgertest.Random(t, harness(t, redistest.Start(t)))
}
