package clientlimit_test

import (
	"bytes"
	"encoding/base64"
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

// minutely is a call of clients that have three units a minute; it only looks.
var minutely = clientlimit.Call{
	Clients: "public", Algorithm: clientlimit.Log, Limits: []clientlimit.Bound{{WindowMs: 60_000, Units: 3}},
}

// A file that is damaged is read up to there, and what was read decides.
func TestDamagedFile(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	c := minutely
	line := func(record string) string {
		key := base64.StdEncoding.EncodeToString(c.Key[:])
		const form = `{"Clients":"public","BegunMs":%d,"LifeMs":60000,"Key":%q,"Record":%s}`
		return fmt.Sprintf(form, now.UnixMilli(), key, record) + "\n"
	}
	used := func(text string) (clientlimit.Count, error) {
		m := clientlimit.NewMemory(func() time.Time { return now })
		failed := m.Load(strings.NewReader(text))
		n, err := m.Count(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return n, failed
	}
	good := line(fmt.Sprintf("[0,0,%d,3]", now.UnixMilli()))
	for _, damaged := range []string{
		"clients", `{"Clients":1}`, `{"BegunMs":"x"}`, `{"Key":"x"}`, `{"Record":[1,2`, "\x00\xff",
	} {
		if n, err := used(good + damaged + "\n" + good); err == nil || n.Limits[0].Used != 3 {
			t.Errorf("%q: got %+v, %v", damaged, n, err)
		}
	}
	for _, numbers := range []string{
		"[7]", "[1,2,3,4,5]", "[9,9,9]", "[0,0,9223372036854775807,1]", "[0,0,-1,-1]", "[]", "null",
	} {
		for _, c.Algorithm = range []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter} {
			if _, err := used(line(numbers)); err != nil {
				t.Error(err)
			}
		}
	}
}

// What cannot count any more is not read.
func TestOldFile(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	m := clientlimit.NewMemory(func() time.Time { return now })
	c := minutely
	c.Units = 1
	if _, err := m.Count(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	size := func() int {
		var text bytes.Buffer
		if err := m.Save(&text); err != nil {
			t.Fatal(err)
		}
		m = clientlimit.NewMemory(func() time.Time { return now })
		if err := m.Load(&text); err != nil {
			t.Fatal(err)
		}
		text.Reset()
		if err := m.Save(&text); err != nil {
			t.Fatal(err)
		}
		return text.Len()
	}
	if size() == 0 {
		t.Error("it is gone at once")
	}
	if now = now.Add(2 * time.Minute); size() != 0 {
		t.Error("it is there after two windows")
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
	for i := n - min(n, 500_000); i < n; i++ {
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
	runtime.KeepAlive(m)
}

func heap() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
