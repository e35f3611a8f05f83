package clientlimit_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
	"quotad/quota/seedtest"
)

// memoryHarness opens stores in memory, which a restart saves and reads.
func memoryHarness() ledgertest.ClientHarness {
	return ledgertest.ClientHarness{Open: func(t testing.TB, clock *ledgertest.Clock) (clientlimit.Store, func() clientlimit.Store) {
		m := clientlimit.NewMemory(clock.Now)
		return m, func() clientlimit.Store {
			m = reopened(t, m, clock.Now)
			return m
		}
	}}
}

// reopened returns what is left of a store after a restart.
func reopened(t testing.TB, m *clientlimit.Memory, clock func() time.Time) *clientlimit.Memory {
	t.Helper()
	var text bytes.Buffer
	must(t, m.Save(&text))
	m = clientlimit.NewMemory(clock)
	must(t, m.Load(&text))
	return m
}

func TestMemory(t *testing.T) { ledgertest.RunClients(t, memoryHarness()) }

func TestLogsAreBounded(t *testing.T) { ledgertest.RunBoundOfLogs(t, memoryHarness()) }

// By night, 20,000 histories of each algorithm: QUOTAD_TEST_LONG=20000.
func TestRandomMemory(t *testing.T) { ledgertest.RandomClients(t, memoryHarness(), 1000) }

var nine = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// of returns clients with a limit that is their only one.
func of(algorithm clientlimit.Algorithm, units quota.Units, window time.Duration) *clientlimit.Clients {
	return &clientlimit.Clients{Name: string(algorithm), Algorithm: algorithm,
		Limits: []quota.Limit{{Name: "default", Units: units, Window: quota.Sliding(window)}}}
}

// What cannot count any more is not read from the file.
func TestFile(t *testing.T) {
	now := nine
	m := clientlimit.NewMemory(func() time.Time { return now })
	for used := range 2 {
		n, err := m.Count(t.Context(), clientlimit.Call{Clients: of(clientlimit.Log, 3, time.Minute), Units: 1})
		if err != nil || !n.Granted || n.Limits[0].Used != quota.Units(used+1) {
			t.Fatalf("got %+v, %v", n, err)
		}
		m = reopened(t, m, func() time.Time { return now })
	}
	now = now.Add(2 * time.Minute)
	var empty bytes.Buffer
	if err := reopened(t, m, func() time.Time { return now }).Save(&empty); err != nil || empty.String() != "{}\n" {
		t.Errorf("after two windows there is %q, %v", empty.String(), err)
	}
}

// Whatever somebody wrote into the file, a subject is decided. Of a file that cannot be read nothing counts.
func FuzzFile(f *testing.F) {
	for _, record := range []string{
		"null", "[]", "[1]", "[0,0,1795251600000,3]", "[1,2,3]", "[0,0,0,0,0,0,0]", "[9223372036854775807,-1,9223372036854775807]",
	} {
		for _, name := range []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter} {
			for _, half := range []string{"Young", "Old"} {
				f.Add(fmt.Sprintf(`{%q:{%q:{%q:%s},"BegunMs":1795251600000,"LifeMs":86400000}}`, name, half, clientlimit.Key{}, record))
			}
		}
	}
	for _, text := range []string{"null", `{"log":null}`, `{"log":{}}`, `{"log":{"Young":{"0":[]`, `{"log":{"Young":{"z":[]}}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m := clientlimit.NewMemory(func() time.Time { return nine })
		damaged := m.Load(strings.NewReader(text))
		for _, algorithm := range []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter} {
			c := clientlimit.Call{Clients: of(algorithm, 3, time.Minute), Units: 3}
			for range 2 {
				if n, err := m.Count(t.Context(), c); err != nil || damaged != nil && !n.Granted {
					t.Errorf("got %+v, %v after %v", n, err, damaged)
				}
				if err := m.Forget(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
		}
		if err := m.Save(io.Discard); err != nil {
			t.Error(err)
		}
	})
}

// Many new subjects take no more memory than the bound, and those that called last are counted on.
func TestMemoryIsBounded(t *testing.T) {
	n, now := seedtest.Long(t, 1_000_000), nine
	m := clientlimit.NewMemory(func() time.Time { return now })
	heap := func() int64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	before, most := heap(), int64(0)
	c := clientlimit.Call{Clients: of(clientlimit.Log, 1, 24*time.Hour), Units: 1}
	granted := func(i int) bool {
		binary.BigEndian.PutUint64(c.Key[:], uint64(i))
		answer, err := m.Count(t.Context(), c)
		must(t, err)
		return answer.Granted
	}
	for i := range n {
		if !granted(i) {
			t.Fatalf("subject %d is denied", i)
		}
		if i%100_000 == 99_999 {
			most = max(most, heap()-before)
			t.Logf("%d subjects take %d MB", i+1, most>>20)
		}
	}
	for i := n - min(n, 500_000); i < n; i++ {
		if granted(i) {
			t.Fatalf("%d subjects later, subject %d begins anew", n-i, i)
		}
	}
	for range 2 {
		now = now.Add(24 * time.Hour)
		granted(0)
	}
	if left := heap() - before; most > 160<<20 || left > 1<<20 {
		t.Errorf("they take %d MB, and %d bytes after two windows", most>>20, left)
	}
	runtime.KeepAlive(m)
}

// A subject's counter is remembered until the window after that of its last call has ended.
func TestCounterIsRemembered(t *testing.T) {
	var at time.Time
	m := clientlimit.NewMemory(func() time.Time { return at })
	for _, call := range []struct {
		minute int // from nine
		key    byte
		used   quota.Units // with this call
	}{{-30, 'b', 8}, {29, 'a', 8}, {30, 'b', 12}, {90, 'b', 12}, {90, 'a', 12}} {
		at = nine.Add(time.Duration(call.minute) * time.Minute)
		n, err := m.Count(t.Context(), clientlimit.Call{Clients: of(clientlimit.Counter, 100, time.Hour), Key: clientlimit.Key{call.key}, Units: 8})
		if err != nil || n.Limits[0].Used != call.used {
			t.Errorf("minute %d: %d units are used, want %d: %v", call.minute, n.Limits[0].Used, call.used, err)
		}
	}
}

// In no trailing window a counter grants twice the limit, and at the worst it comes close. Who asks again at the time
// to retry is granted.
func TestBoundOfTheCounter(t *testing.T) {
	const units, window = 60, int64(60_000)
	random := rand.New(rand.NewPCG(seedtest.Seed(t, 1), 0))
	for _, row := range []struct {
		name  string
		next  func(at int64, d quota.Decision) (int64, quota.Units) // when to ask next, and for how many
		worst quota.Units                                           // that is reached at least
	}{
		{"random, three times the limit", func(at int64, _ quota.Decision) (int64, quota.Units) {
			n := 1 + random.IntN(10)
			return at + int64(random.ExpFloat64()*float64(window)/units/3*float64(n)), quota.Units(n)
		}, units},
		{"all at the end of a window, then as soon as it may", func(at int64, d quota.Decision) (int64, quota.Units) {
			switch {
			case at/window%3 == 2 || at%window == 0:
				return (at/window+4-at/window%3)*window - 1, units
			case d.Granted():
				return at, 1
			}
			return d.RetryAt.UnixMilli(), 1
		}, 2*units - 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			at, n := nine.UnixMilli(), quota.Units(1)
			s := clientlimit.NewService(nil)
			m := clientlimit.NewMemory(func() time.Time { return time.UnixMilli(at) })
			all := []*clientlimit.Clients{of(clientlimit.Counter, units, time.Minute)}
			must(t, s.SetClients(m, "a secret of the test", all))
			var grants [][2]int64 // when, and how many
			var sum, worst quota.Units
			for range 5000 {
				d, err := s.Acquire(t.Context(), "counter", clientlimit.Request{Subject: "alice", Count: n})
				must(t, err)
				for len(grants) > 0 && grants[0][0] <= at-window {
					sum -= quota.Units(grants[0][1])
					grants = grants[1:]
				}
				if d.Granted() {
					grants, sum = append(grants, [2]int64{at, int64(n)}), sum+n
				}
				worst = max(worst, sum)
				at, n = row.next(at, d)
			}
			if worst >= 2*units || worst < row.worst {
				t.Errorf("%d units in a trailing window of %d", worst, units)
			}
		})
	}
}

var must = ledgertest.Must
