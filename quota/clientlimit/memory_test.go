package clientlimit_test

import (
	"bytes"
	"fmt"
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
			var text bytes.Buffer
			if err := m.Save(&text); err != nil {
				t.Fatal(err)
			}
			m = clientlimit.NewMemory(clock.Now)
			if err := m.Load(&text); err != nil {
				t.Fatal(err)
			}
			return m
		}
	}}
}

func TestMemory(t *testing.T) { ledgertest.RunClients(t, memoryHarness()) }

func TestLogsAreBounded(t *testing.T) { ledgertest.RunBoundOfLogs(t, memoryHarness()) }

// By night, 20,000 histories of each algorithm: QUOTAD_TEST_LONG=20000.
func TestRandomMemory(t *testing.T) { ledgertest.RandomClients(t, memoryHarness(), 1000) }

// A file that is damaged is read up to there, and what was read decides.
func TestDamagedFile(t *testing.T) {
	const good = "clients public 60000 1\n00112233445566778899aabbccddeeff 0 0 5 3\n"
	for _, line := range []string{
		"", "clients", "clients public x 1", "clients a b 60000 1", "00112233445566778899aabbccddeeff", "00112233445566778899aabbccddee 0 0",
		"00112233445566778899aabbccddeefg 0 0", "00112233445566778899aabbccddeeff 0 -1", "00112233445566778899aabbccddeeff 0 x", "\x00\xff",
	} {
		m := clientlimit.NewMemory(time.Now)
		if err := m.Load(strings.NewReader(good + line + "\n" + good)); err == nil || err.Error() != "line 3 is damaged" {
			t.Errorf("%q: %v", line, err)
		}
	}
	if err := clientlimit.NewMemory(time.Now).Load(strings.NewReader(strings.SplitAfter(good, "\n")[1])); err == nil {
		t.Error("a record of no group is read")
	}
	for _, numbers := range []string{"7", "1 2 3 4 5", "9 9 9", "0 0 9223372036854775807 1"} { // as many as no record has, or great ones
		m := clientlimit.NewMemory(time.Now)
		c := clientlimit.Call{Clients: "public", Limits: []clientlimit.Bound{{WindowMs: 60_000, Units: 3}}, Units: 1}
		if err := m.Load(strings.NewReader("clients public 60000 1\n" + c.Key.String() + " " + numbers + "\n")); err != nil {
			t.Fatal(err)
		}
		for _, c.Algorithm = range []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter} {
			if _, err := m.Count(t.Context(), c); err != nil {
				t.Error(err)
			}
		}
	}
}

// Many new subjects take no more memory than the bound, and those that called last are counted on.
func TestMemoryIsBounded(t *testing.T) {
	n := seedtest.Long(t, 1_000_000)
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	m := clientlimit.NewMemory(func() time.Time { return now })
	before := heap()
	c := clientlimit.Call{
		Clients: "public", Algorithm: clientlimit.Log, Units: 1, Limits: []clientlimit.Bound{{WindowMs: 86_400_000, Units: 1}},
	}
	granted := func(i int) bool {
		copy(c.Key[:], fmt.Sprintf("%016d", i))
		answer, err := m.Count(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Granted
	}
	begun, most := time.Now(), int64(0)
	for i := range n {
		if !granted(i) {
			t.Fatalf("subject %d is denied", i)
		}
		if i%100_000 == 99_999 {
			most = max(most, heap()-before)
		}
	}
	t.Logf("%s subjects in %v: at most %d MB", quota.Thousands(quota.Units(n)), time.Since(begun).Round(time.Millisecond), most>>20)
	for i := n - min(n, 400_000); i < n; i++ {
		if granted(i) {
			t.Fatalf("%d subjects later, subject %d begins anew", n-i, i)
		}
	}
	if most > 160<<20 {
		t.Errorf("they take %d MB", most>>20)
	}
	now = now.Add(24 * time.Hour)
	granted(0)
	now = now.Add(24 * time.Hour)
	granted(0)
	if left := heap() - before; left > 1<<20 {
		t.Errorf("after two windows they take %d bytes", left)
	}
}

func heap() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
