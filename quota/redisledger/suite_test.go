package redisledger

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quotad/lua"
	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

// onTestClock returns sources whose clock is a key, in µs. They are never quiet: the suite's hosts have nothing to put
// back.
func onTestClock(bounds lua.Bounds, key string) map[string]string {
	bounds.QuietMicros = 0
	s := lua.All(bounds)
	clock := "local us = redis.call('GET', '" + key + "')\nlocal time = { math.floor(us / 1000000), us % 1000000 }"
	for name, text := range s {
		if !strings.HasPrefix(name, "client") {
			s[name] = strings.Replace(text, "local time = redis.call('TIME')", clock, 1)
		}
	}
	return s
}

// suiteHarness are hosts on one Redis, whose clock the test sets.
func suiteHarness(t *testing.T, bounds lua.Bounds) ledgertest.Harness {
	server := redistest.Start(t)
	config := Config{Addrs: []string{server.Addr}, Deadline: 3 * time.Minute}
	var histories atomic.Int64
	var sources map[string]string // of the history that began last
	host := func(t testing.TB, dir string) quota.Ledger {
		t.Helper()
		config := config
		config.KeyPrefix = fmt.Sprintf("h%d:", histories.Load())
		store, err := openStore(config, sources)
		if err != nil {
			t.Fatal(err)
		}
		l := slidinglog.Open(slidinglog.Config{Engine: store, Dir: dir, Deadline: 3 * time.Minute, Manual: true})
		t.Cleanup(func() { l.Close() })
		return l
	}
	return ledgertest.Harness{
		Open: func(t testing.TB, clock *ledgertest.Clock) (quota.Ledger, func() quota.Ledger) {
			key := fmt.Sprintf("clock%d", histories.Add(1))
			sources = onTestClock(bounds, key)
			clock.OnSet(func(now time.Time) {
				server.Do(t, "SET", key, strconv.FormatInt(now.UnixMicro(), 10))
			})
			dir := t.TempDir()
			return host(t, dir), func() quota.Ledger { return host(t, dir) }
		},
		Configure: func(l quota.Ledger, credentials []*quota.Credential) error {
			return l.(*slidinglog.Ledger).SetCredentials(credentials, nil)
		},
		Join: func(t testing.TB) quota.Ledger { return host(t, t.TempDir()) },
	}
}

func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, suiteHarness(t, lua.Usual()))
}

func TestRandom(t *testing.T) {
	t.Parallel()
	ledgertest.Random(t, suiteHarness(t, lua.Bounds{Work: 3, Walk: 2, Page: 2, Trim: 2}), 10)
}
