package boltledger

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
)

// sweepAll sweeps all that there is once, and returns how many records it took out.
func sweepAll(t testing.TB, l *Clients) (taken int) {
	t.Helper()
	for at := (place{}); ; {
		next, n, err := l.sweepSome(at)
		if err != nil {
			t.Fatal(err)
		}
		if taken += n; next.bucket == nil {
			return taken
		}
		at = next
	}
}

// recordsIn returns how many records the file has, and how many pages that are in use.
func recordsIn(t testing.TB, l *Clients) (records, pages int) {
	t.Helper()
	err := l.use(false, func(tx *bbolt.Tx) (bool, error) {
		pages = int(tx.Size())/pageSize - l.db.Stats().FreePageN - l.db.Stats().PendingPageN
		return false, tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			records += b.Inspect().KeyN
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return records - 1, pages // its head has one, the version
}

// Who does not come back is forgotten when nothing of him counts any more, not before; the
// file does not grow with all who ever came.
func TestSweep(t *testing.T) {
	clock := ledgertest.NewClock(noon())
	l := openClients(t, filepath.Join(t.TempDir(), "clients.db"), clock.Now)
	defer l.Close()
	counter, log := public(clientlimit.Counter), public(clientlimit.Log)
	const each = 1500 // more than one step
	grant := func(c *clientlimit.Clients, from int) {
		t.Helper()
		for n := 0; n < each; n += 500 {
			if take(t, l, c, someSubjects(from+n, 500)...) != 500 {
				t.Fatal("not granted")
			}
		}
	}
	sweeps := func(want int) {
		t.Helper()
		before, _ := recordsIn(t, l)
		if taken := sweepAll(t, l); taken != want {
			t.Fatalf("%d of %d records were taken out, want %d", taken, before, want)
		}
		if after, _ := recordsIn(t, l); after != before-want {
			t.Fatalf("%d of %d records are left, want %d less", after, before, want)
		}
	}
	grant(counter, 0)
	grant(log, 0)
	sweeps(0)
	clock.Add(time.Minute - time.Millisecond)
	sweeps(0)
	clock.Add(time.Millisecond)
	sweeps(each) // those of the log: all has left its window
	clock.Add(time.Minute - time.Millisecond)
	sweeps(0)
	grant(counter, each)
	clock.Add(time.Millisecond)
	sweeps(each)
	if n := take(t, l, counter, someSubjects(each, 1)...); n != 1 {
		t.Error("who came back was swept, or has too much")
	}
	grown := int64(0)
	for n := range 10 {
		grant(counter, n*each)
		clock.Add(3 * time.Minute)
		sweepAll(t, l)
		if records, pages := recordsIn(t, l); records != 0 || pages > 20 {
			t.Fatalf("%d records are left, in %d pages", records, pages)
		}
		info, err := os.Stat(l.path)
		if err != nil {
			t.Fatal(err)
		}
		if n == 3 {
			grown = info.Size()
		}
		if n > 3 && info.Size() > grown*5/4 {
			t.Fatalf("the file has %d bytes after %d rounds, and had %d", info.Size(), n, grown)
		}
	}
}
