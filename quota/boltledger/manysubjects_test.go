package boltledger

import (
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
)

// Twenty thousand subjects whose limit is a counter, each by the hash of an address, take at most 110 bytes each, and
// next to nothing once they have stayed away and were swept.
func TestManySubjects(t *testing.T) {
	const subjects, batch = 20_000, 125
	clock, c := ledgertest.NewClock(noon()), public(clientlimit.Counter)
	c.Limits[0].Units = 1000 // nobody is denied
	path := filepath.Join(t.TempDir(), "clients.db")
	l := openClients(t, path, clock.Now)
	random := rand.NewPCG(17, 5)
	for range subjects / batch {
		var keys []clientlimit.Key
		for range batch {
			var hash [16]byte // those of others are in no order
			binary.LittleEndian.PutUint64(hash[:], random.Uint64())
			binary.LittleEndian.PutUint64(hash[8:], random.Uint64())
			keys = append(keys, clientlimit.Key("#"+string(hash[:])))
		}
		if n := take(t, l, c, keys...); n != batch {
			t.Fatalf("%d of %d granted", n, batch)
		}
	}
	if records, pages := recordsIn(t, l); records < subjects || pages*pageSize > 110*records {
		t.Errorf("%d records of %d subjects are in %d pages", records, subjects, pages)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openClients(t, path, clock.Now)
	clock.Add(2 * time.Minute)
	taken := sweepAll(t, l)
	if records, pages := recordsIn(t, l); taken != subjects || records != 0 || pages > 50 {
		t.Errorf("%d of %d are gone, %d records are in %d pages", taken, subjects, records, pages)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
