package redisledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/lua"
	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// clockOfClients is the key of the time behind the same prefix as a subject's.
const clockOfClients = "string.sub(KEYS[1], 1, -14) .. 'clock'"

// clientScripts are the scripts on a clock of the test. A record outlives its time by a
// day: Redis lets it expire by its own clock, on which the test's hours are seconds.
func clientScripts(t testing.TB, clock string) lua.Scripts {
	return rewritten(onClock(t, clock), func(script string) string {
		return strings.NewReplacer("'PX', ", "'PX', 86400000 + ", "'PEXPIRE', subject, ", "'PEXPIRE', subject, 86400000 + ").Replace(script)
	})
}

// patient has calls wait for their answers, on a busy machine too.
func patient(l *Store) *Store {
	switch client := l.client.(type) {
	case *redis.Client:
		client.Options().ReadTimeout, client.Options().WriteTimeout = hanging, hanging
	case *redis.ClusterClient:
		client.Options().ReadTimeout, client.Options().WriteTimeout = hanging, hanging
	}
	return l
}

// clientHarness opens ledgers of client limits on one server, each under a key prefix of its own.
func clientHarness(server *redistest.Server) ledgertest.ClientHarness {
	var join func(t testing.TB) clientlimit.Ledger
	return ledgertest.ClientHarness{
		Open: func(t testing.TB, clock *ledgertest.Clock) (clientlimit.Ledger, func() clientlimit.Ledger) {
			config := Config{Addrs: []string{server.Addr}, KeyPrefix: "quotad:" + t.Name() + ":"}
			client := connect(t, config)
			clock.OnSet(func(now time.Time) {
				if err := client.Set(context.Background(), config.KeyPrefix+"clock", now.UnixMilli(), 0).Err(); err != nil {
					t.Error(err)
				}
			})
			join = func(t testing.TB) clientlimit.Ledger {
				l, err := openStore(config, clientScripts(t, clockOfClients))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { l.Close() })
				return patient(l)
			}
			return join(t), func() clientlimit.Ledger { return join(t) }
		},
		Join: func(t testing.TB) clientlimit.Ledger { return join(t) },
	}
}

func TestClients(t *testing.T) {
	t.Parallel()
	ledgertest.RunClients(t, clientHarness(redistest.Start(t)))
}

func TestRandomClients(t *testing.T) {
	t.Parallel()
	ledgertest.RandomClients(t, clientHarness(redistest.Start(t)))
}

// clientLedger opens a ledger on the clock of a server.
func clientLedger(t *testing.T, addr string) *Store {
	t.Helper()
	return openClients(t, addr, clientScripts(t, clockOfServer))
}

// pagedClientLedger is one that reads little of a log at once, and writes longer ones in place.
func pagedClientLedger(t *testing.T, addr string) *Store {
	t.Helper()
	scripts := clientScripts(t, clockOfServer)
	if !strings.Contains(scripts.ClientLog, "local PAGE = 4000") {
		t.Fatal("the log is not read by pages of 4000 bytes")
	}
	scripts.ClientLog = strings.Replace(scripts.ClientLog, "local PAGE = 4000", "local PAGE = 130", 1)
	return openClients(t, addr, scripts)
}

func openClients(t *testing.T, addr string, scripts lua.Scripts) *Store {
	t.Helper()
	l, err := openStore(Config{Addrs: []string{addr}}, scripts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return patient(l)
}

// After the same history, Redis and clientlimit have the same record and have decided the
// same, whatever the limits and their windows become, and wherever the clock steps.
func TestClientRecordsAgree(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	whole, paged := clientLedger(t, server.Addr), pagedClientLedger(t, server.Addr)
	testClientRecordsAgree(t, whole, "counter", clientlimit.Counter)
	testClientRecordsAgree(t, whole, "log", clientlimit.Log)
	testClientRecordsAgree(t, paged, "log-in-place", clientlimit.Log)
}

func testClientRecordsAgree(t *testing.T, l *Store, name string, algorithm clientlimit.Algorithm) {
	t.Run(name, func(t *testing.T) {
		const lives = 4
		seed := seedtest.Seed(t, 1)
		for n := range lives {
			h := clientHistory{
				t: t, ledger: l, redis: l.client, rand: rand.New(rand.NewPCG(seed, uint64(n))),
				clients: &clientlimit.Clients{Name: fmt.Sprint(name, n), Algorithm: algorithm},
				clockMs: 1_800_000_000_000, subject: clientlimit.Key("=alice"),
			}
			h.limit()
			for range 250 {
				h.step()
			}
		}
	})
}

// A limit that only observes goes beyond its units: it forgets its oldest grants when it has
// as many as a limit of a log may have units.
func TestClientRecordsAgreeOnLongLogs(t *testing.T) {
	t.Parallel()
	l := clientLedger(t, redistest.Start(t).Addr)
	const most, beginMs = 100_000, int64(1_800_000_000_000)
	for _, entries := range []int{most - 1, most} {
		h := clientHistory{
			t: t, ledger: l, redis: l.client, subject: "=alice",
			clients: &clientlimit.Clients{Name: fmt.Sprint(entries), Algorithm: clientlimit.Log, Limits: []quota.Limit{
				{Name: "second", Units: 2, Window: quota.Sliding(time.Second)},
				{Name: "daily", Units: 5, Window: quota.Sliding(24 * time.Hour), Observe: true},
			}},
		}
		h.record = clientLog(beginMs, entries, [3]int{1, entries, 0}, [3]int{86400, 0, entries})
		h.clockMs = beginMs + int64(entries)
		if err := h.redis.Set(t.Context(), l.clientKey(h.clients, h.subject), h.record, 0).Err(); err != nil {
			t.Fatal(err)
		}
		h.clockMs += 5000
		for range 3 { // the third is denied
			h.ask(1)
			h.clockMs++
		}
		if got := h.clients.Counts(h.record, h.clockMs)[1].Used; got != most {
			t.Errorf("%d grants are observed of %d and 2, want %d", got, entries, most)
		}
	}
}

// clientLog is a record with a grant of one unit in each ms from a time on, and of each limit
// its window in s, which grant is the first that counts, and the units that do.
func clientLog(beginMs int64, grants int, limits ...[3]int) []byte {
	little, record := binary.LittleEndian, []byte{byte(len(limits))}
	for _, limit := range limits {
		record = little.AppendUint32(little.AppendUint32(record, uint32(limit[0])), uint32(limit[1]))
		record = little.AppendUint64(record, uint64(limit[2]))
	}
	for ms := beginMs; ms < beginMs+int64(grants); ms++ {
		record = little.AppendUint16(little.AppendUint32(record, uint32(ms&0xffffffff)), uint16(ms>>32))
		record = little.AppendUint32(record, 1)
	}
	return record
}

// A clientHistory is what one subject asks a ledger, and what clientlimit computes.
type clientHistory struct {
	t       *testing.T
	ledger  *Store
	redis   redis.UniversalClient
	rand    *rand.Rand
	clients *clientlimit.Clients
	subject clientlimit.Key
	clockMs int64
	record  []byte
}

// limit draws limits.
func (h *clientHistory) limit() {
	h.clients.Limits = nil
	windows := []time.Duration{time.Second, 2 * time.Second, 7 * time.Second, time.Minute, time.Hour, 24 * time.Hour, 366 * 24 * time.Hour}
	h.rand.Shuffle(len(windows), func(i, j int) { windows[i], windows[j] = windows[j], windows[i] })
	for i := range 1 + h.rand.IntN(3) {
		units := 1 + quota.Units(h.rand.Int64N(1<<(1+h.rand.IntN(16))))
		limit := quota.Limit{Name: fmt.Sprint("limit-", i), Units: units, Window: quota.Sliding(windows[i]), Observe: h.rand.IntN(4) == 0}
		h.clients.Limits = append(h.clients.Limits, limit)
	}
	if wrong := h.clients.Validate(); wrong != nil {
		h.t.Fatal(wrong[0])
	}
}

func (h *clientHistory) step() {
	h.t.Helper()
	switch h.rand.IntN(40) {
	case 0:
		h.limit()
	case 1, 2:
		h.clockMs -= h.rand.Int64N(10_000)
	case 3:
		h.clockMs += h.rand.Int64N(3_000_000)
	default:
		h.clockMs += h.rand.Int64N(1 << h.rand.IntN(12)) // often nothing
	}
	units := 1 + quota.Units(h.rand.Int64N(1<<h.rand.IntN(10)))
	if h.rand.IntN(50) == 0 {
		units = 1 << 32
	}
	h.ask(units)
}

// ask asks for units, and compares the answers and the record.
func (h *clientHistory) ask(units quota.Units) {
	h.t.Helper()
	ctx := h.t.Context()
	if err := h.redis.Set(ctx, "clock", h.clockMs, 0).Err(); err != nil {
		h.t.Fatal(err)
	}
	usage, err := h.ledger.ClientUsage(ctx, h.clients, h.subject)
	if err != nil {
		h.t.Fatal(err)
	}
	if want := h.clients.Usage(h.clockMs, h.clients.Counts(h.record, h.clockMs)); !reflect.DeepEqual(usage, want) {
		h.t.Fatalf("usage of %v at %d with the record %x:\ngot  %+v\nwant %+v", h.clients.Limits, h.clockMs, h.record, usage, want)
	}
	decisions, err := h.ledger.DecideClients(ctx, h.clients, []clientlimit.Ask{{Subject: h.subject, Units: units}})
	if err != nil {
		h.t.Fatal(err)
	}
	before := h.record
	after, _, want := h.clients.Decide(before, h.clockMs, units)
	if after != nil {
		h.record = after
	}
	if !reflect.DeepEqual(decisions[0], want) {
		h.t.Fatalf("%d units of %v at %d with the record %x:\ngot  %+v\nwant %+v", units, h.clients.Limits, h.clockMs, before, decisions[0], want)
	}
	got, err := h.redis.Get(ctx, h.ledger.clientKey(h.clients, h.subject)).Bytes()
	if err != nil && err != redis.Nil {
		h.t.Fatal(err)
	}
	if !bytes.Equal(got, h.record) {
		h.t.Fatalf("%d units of %v at %d with the record %x:\ngot  %x\nwant %x", units, h.clients.Limits, h.clockMs, before, got, h.record)
	}
}
