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
	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

// scriptsOf returns scripts whose clock is a key, in µs. They are never quiet: nobody else has anything to put back.
func scriptsOf(bounds lua.Bounds, key string) map[string]string {
	bounds.QuietMicros = 0
	s := lua.All(bounds)
	now := "redis.call('GET', '" + key + "')"
	clock := "{ math.floor(" + now + " / 1000000), " + now + " % 1000000 }"
	for name, text := range s {
		s[name] = strings.Replace(text, "redis.call('TIME')", clock, 1)
	}
	return s
}

// A suite has the histories of a suite on one Redis, each with a clock that the test sets.
type suite struct {
	server    *redistest.Server
	conn      *redistest.Conn // which sets clocks
	histories atomic.Int64
}

func newSuite(t *testing.T) *suite {
	server := redistest.Start(t)
	return &suite{server: server, conn: server.Dial(t)}
}

// begin begins a history, and returns what opens stores of it. They wait for their answers, on a busy machine too.
func (s *suite) begin(clock *ledgertest.Clock, t testing.TB, bounds lua.Bounds) (open func(testing.TB) *Store) {
	prefix := fmt.Sprintf("h%d:", s.histories.Add(1))
	sources := scriptsOf(bounds, prefix+"clock")
	clock.OnSet(func(now time.Time) {
		if _, err := s.conn.Do("SET", prefix+"clock", strconv.FormatInt(now.UnixMicro(), 10)); err != nil {
			t.Fatal(err)
		}
	})
	return func(t testing.TB) *Store {
		t.Helper()
		store, err := openStore(Config{Addrs: []string{s.server.Addr}, Deadline: hanging, KeyPrefix: prefix}, sources)
		must(t, err)
		return store
	}
}

// logHarness are hosts that share a log.
func logHarness(t *testing.T, bounds lua.Bounds) ledgertest.Harness {
	s := newSuite(t)
	var open func(testing.TB) *Store // of the history that began last
	host := func(t testing.TB, dir string) quota.Ledger {
		l := slidinglog.Open(slidinglog.Config{Engine: open(t), Dir: dir, Deadline: hanging, Manual: true})
		t.Cleanup(func() { l.Close() })
		return l
	}
	return ledgertest.Harness{
		Open: func(t testing.TB, clock *ledgertest.Clock) (quota.Ledger, func() quota.Ledger) {
			open = s.begin(clock, t, bounds)
			dir := t.TempDir()
			return host(t, dir), func() quota.Ledger { return host(t, dir) }
		},
		Configure: func(l quota.Ledger, credentials []*quota.Credential) error {
			return l.(*slidinglog.Ledger).SetCredentials(credentials, nil)
		},
		Join: func(t testing.TB) quota.Ledger { return host(t, t.TempDir()) },
	}
}

// clientHarness are daemons that share the records of clients. Redis lets a record expire by its own clock, on which the
// test's hours are seconds.
func clientHarness(t *testing.T) ledgertest.ClientHarness {
	s := newSuite(t)
	var open func(testing.TB) *Store
	join := func(t testing.TB) clientlimit.Store {
		store := open(t)
		t.Cleanup(func() { store.Close() })
		return store
	}
	return ledgertest.ClientHarness{
		Open: func(t testing.TB, clock *ledgertest.Clock) (clientlimit.Store, func() clientlimit.Store) {
			open = s.begin(clock, t, lua.Usual())
			return join(t), func() clientlimit.Store { return join(t) }
		},
		Join: join,
	}
}

func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, logHarness(t, lua.Usual()))
}

func TestRandom(t *testing.T) {
	t.Parallel()
	ledgertest.Random(t, logHarness(t, lua.Bounds{Work: 3, Walk: 2, Page: 2, Trim: 2}), 10)
}

func TestClients(t *testing.T) {
	t.Parallel()
	ledgertest.RunClients(t, clientHarness(t))
}

// By night, 20,000 histories of each algorithm: QUOTAD_TEST_LONG=20000.
func TestRandomClients(t *testing.T) {
	t.Parallel()
	ledgertest.RandomClients(t, clientHarness(t), 200)
}
