package boltledger

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
	"quotad/quota/seedtest"
)

// TestManySubjects measures what subjects take whose limit is a counter, each by the hash of
// an address: bytes in the file; a decision alone and in batches of 128, of known subjects
// and of new ones, when there are a thousand and when there are all; opening the file; and
// sweeping all when they stay away.
func TestManySubjects(t *testing.T) {
	subjects := max(seedtest.OnlyLong(t, "subjects"), 100_000)
	clock := ledgertest.NewClock(noon())
	m := &manySubjects{T: t, c: public(clientlimit.Counter), random: rand.New(rand.NewPCG(17, 5)), path: filepath.Join(t.TempDir(), "clients.db")}
	m.l = openClients(t, m.path, clock.Now)
	m.c.Limits[0].Units = 1000 // nobody is denied
	m.fill(1000)
	m.decisions()
	m.fill(subjects)
	m.size()
	m.decisions()
	m.reopen(clock.Now)
	clock.Add(2 * time.Minute)
	m.sweep()
	m.size()
	if err := m.l.Close(); err != nil {
		t.Fatal(err)
	}
}

type manySubjects struct {
	*testing.T
	l        *Clients
	path     string
	c        *clientlimit.Clients
	random   *rand.Rand
	subjects int
}

// key is the key of a subject: a hash, as it looks. Those of others are in no order.
func (m *manySubjects) key(n int) clientlimit.Key {
	var hash [16]byte
	random := rand.NewPCG(uint64(n), 1)
	binary.LittleEndian.PutUint64(hash[:], random.Uint64())
	binary.LittleEndian.PutUint64(hash[8:], random.Uint64())
	return clientlimit.Key("#" + string(hash[:]))
}

// fill has there be so many subjects, in batches as the daemon's.
func (m *manySubjects) fill(subjects int) {
	started, from := time.Now(), m.subjects
	for m.subjects < subjects {
		m.ask(m.next(min(128, subjects-m.subjects)))
	}
	m.Logf("%d subjects more: %v each", subjects-from, time.Since(started)/time.Duration(subjects-from))
}

// next are keys of so many new subjects, and some of known ones.
func (m *manySubjects) next(n int) (keys []clientlimit.Key) {
	for range n {
		keys = append(keys, m.key(m.subjects))
		m.subjects++
	}
	return keys
}

func (m *manySubjects) some(n int) (keys []clientlimit.Key) {
	for range n {
		keys = append(keys, m.key(m.random.IntN(m.subjects)))
	}
	return keys
}

func (m *manySubjects) ask(keys []clientlimit.Key) {
	m.Helper()
	if n := take(m, m.l, m.c, keys...); n != len(keys) {
		m.Fatalf("%d of %d granted", n, len(keys))
	}
}

func (m *manySubjects) decisions() {
	const rounds = 2000
	for _, size := range []int{1, 128} {
		var took []time.Duration
		for range rounds {
			keys := m.some(size)
			started := time.Now()
			m.ask(keys)
			took = append(took, time.Since(started)/time.Duration(size))
		}
		slices.Sort(took)
		m.Logf("with %8d subjects: a decision in batches of %3d takes %6.1f µs (p50), %6.1f µs (p99)", m.subjects, size, micros(took[rounds/2]), micros(took[rounds*99/100]))
	}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// size tells what the file takes, and what of it is in use.
func (m *manySubjects) size() {
	records, pages := recordsIn(m, m.l)
	info, err := os.Stat(m.path)
	if err != nil {
		m.Fatal(err)
	}
	each := func(bytes int) string {
		return fmt.Sprintf("%.1f bytes a subject", float64(bytes)/float64(max(1, records)))
	}
	m.Logf("%d records: the file has %d bytes (%s), of which %d are in use (%s)", records, info.Size(), each(int(info.Size())), pages*pageSize, each(pages*pageSize))
	if records > 0 && pages*pageSize > 110*records || records == 0 && pages > 50 {
		m.Errorf("%d records are in %d pages", records, pages)
	}
}

func (m *manySubjects) reopen(clock func() time.Time) {
	if err := m.l.Close(); err != nil {
		m.Fatal(err)
	}
	started := time.Now()
	m.l = openClients(m, m.path, clock)
	m.Logf("opened in %v", time.Since(started).Round(time.Millisecond))
}

// sweep has all of them gone, and tells for how long one step keeps others waiting.
func (m *manySubjects) sweep() {
	var longest time.Duration
	started, taken := time.Now(), 0
	for at := (place{}); ; {
		stepped := time.Now()
		next, n, err := m.l.sweepSome(at)
		if err != nil {
			m.Fatal(err)
		}
		longest = max(longest, time.Since(stepped))
		if taken += n; next.bucket == nil {
			break
		}
		at = next
	}
	m.Logf("swept %d in %v, %v at most at a time", taken, time.Since(started).Round(time.Millisecond), longest.Round(10*time.Microsecond))
	if taken != m.subjects {
		m.Errorf("%d of %d are gone", taken, m.subjects)
	}
}
