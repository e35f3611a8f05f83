package clientlimit

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/quota"
)

// nine is the ms at which histories begin: 9:00:00.
var nine = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC).UnixMilli()

func limited(algorithm Algorithm, units quota.Units, windows ...time.Duration) *Clients {
	c := &Clients{Name: "public", Algorithm: algorithm}
	for i, window := range windows {
		c.Limits = append(c.Limits, quota.Limit{Name: fmt.Sprint("l", i), Units: units, Window: quota.Sliding(window)})
	}
	return c
}

// debit grants units at a time behind nine, and returns the record.
func debit(t *testing.T, c *Clients, record []byte, at time.Duration, units quota.Units) []byte {
	t.Helper()
	before := bytes.Clone(record)
	after, ends, d := c.Decide(record, nine+at.Milliseconds(), units)
	if !d.Granted() || after == nil || ends <= nine+at.Milliseconds() {
		t.Fatalf("got %+v and a record until %d, want a grant", d, ends-nine)
	}
	if !bytes.Equal(record, before) {
		t.Fatal("what was read was changed")
	}
	return after
}

func used(c *Clients, record []byte, at time.Duration) []quota.Units {
	var all []quota.Units
	for _, limit := range c.Usage(record, nine+at.Milliseconds()).Limits {
		all = append(all, limit.Used)
	}
	return all
}

// What is on disk and in Redis outlives the program that wrote it.
func TestRecordBytes(t *testing.T) {
	for _, row := range []struct {
		algorithm Algorithm
		want      string
	}{
		{Log, "02" + // two limits
			"0a000000 01000000 0500000000000000" + "3c000000 00000000 0800000000000000" + // 10 s: from the second entry on, 5 units; 60 s: all, 8
			" 807a55fda101 03000000" + " deab55fda101 05000000"}, // 3 at 9:00:00.000, 2 and 3 at 9:00:12.638
		{Counter, "0a000000 2956b30a 05000000 03000000" + "3c000000 5c8ec801 08000000 00000000"},
	} {
		t.Run(string(row.algorithm), func(t *testing.T) {
			c := limited(row.algorithm, 9, 10*time.Second, time.Minute)
			record := debit(t, c, nil, 0, 3)
			record = debit(t, c, record, 12638*time.Millisecond, 2)
			record = debit(t, c, record, 12638*time.Millisecond, 3)
			if got, want := hex.EncodeToString(record), strings.ReplaceAll(row.want, " ", ""); got != want {
				t.Errorf("got\n%s, want\n%s", got, want)
			}
		})
	}
}

// Bytes that are no record are none, whatever they are.
func TestNoRecord(t *testing.T) {
	for _, algorithm := range []Algorithm{Log, Counter} {
		c := limited(algorithm, 5, time.Minute)
		for n := range 64 {
			for _, fill := range []byte{0, 1, 0xff} {
				text := bytes.Repeat([]byte{fill}, n)
				c.Decide(text, nine, 1) // returns
			}
		}
		record := debit(t, c, nil, 0, 5)
		if got := used(c, record[:len(record)-1], 0); got[0] != 0 {
			t.Errorf("%s: a cut record counts %d", algorithm, got[0])
		}
	}
}

// A log is cut when most of it counts nowhere any more, and counts the same then.
func TestLogIsCut(t *testing.T) {
	c := limited(Log, 100, 10*time.Second)
	var record []byte
	for i := range 1000 {
		record = debit(t, c, record, time.Duration(i)*time.Second, 1)
		if want := quota.Units(min(i+1, 10)); used(c, record, time.Duration(i)*time.Second)[0] != want {
			t.Fatalf("after %d seconds %v units count, want %d", i, used(c, record, time.Duration(i)*time.Second), want)
		}
		if most := 1 + logHeadSize + logEntrySize*21; len(record) > most {
			t.Fatalf("the record of 10 entries has %d bytes", len(record))
		}
	}
}

// limits that are not enforced count on as far as their numbers go, and what may be used in the
// others does not depend on them.
func TestNumbersSaturate(t *testing.T) {
	for _, algorithm := range []Algorithm{Log, Counter} {
		c := limited(algorithm, 5, time.Second)
		c.Limits[0].DryRun = true
		var record []byte
		for range 3 {
			record = debit(t, c, record, 0, MaxUnits+1)
		}
		if got := used(c, record, 0)[0]; got != MaxUnits {
			t.Errorf("%s: %d units count, want %d", algorithm, got, MaxUnits)
		}
		debit(t, c, record, time.Second-time.Millisecond, MaxUnits) // overflows nothing
		c.Limits[0].Window = quota.Sliding(366 * 24 * time.Hour)
		record = debit(t, c, record, 500*time.Millisecond, MaxUnits)
		if got := used(c, record, 0)[0]; got < 5 || got > quota.MaxUnits {
			t.Errorf("%s: %d units count in a long window", algorithm, got)
		}
	}
}

// A log whose limit is not enforced is not longer than one that is enforced can be.
func TestObservedLogIsBounded(t *testing.T) {
	c := limited(Log, 60, time.Minute, 300*24*time.Hour)
	c.Limits[1].DryRun, c.Limits[1].Units = true, maxLogUnits
	record := debit(t, c, nil, 0, 1)
	// The record of a subject that has asked once a second since.
	r := readLog(c, record, nine)
	entries := bytes.Clone(r.entries)
	for i := range maxLogUnits - 2 {
		r = &logRecord{now: nine + int64(i+1)*1000, granted: true, newest: 1, windows: []logWindow{{length: 1000}}}
		text, _ := r.encode()
		entries = append(entries, text[1+logHeadSize:]...)
	}
	record = append(append([]byte{1}, make([]byte, logHeadSize)...), entries...) // of other windows: recounted
	for i := maxLogUnits - 1; i < maxLogUnits+3; i++ {
		at := time.Duration(i) * time.Second
		record = debit(t, c, record, at, 1)
		want := []quota.Units{60, quota.Units(min(i+1, maxLogUnits))}
		if got := used(c, record, at); got[0] != want[0] || got[1] != want[1] {
			t.Fatalf("at %v %v units count, want %v", at, got, want)
		}
	}
}

// Nothing counts any more when the group says so, whatever the windows and wherever a bucket begins.
func TestNothingCountsAfterItsTime(t *testing.T) {
	for _, algorithm := range []Algorithm{Log, Counter} {
		c := limited(algorithm, 5, 7*time.Minute, 13*time.Hour)
		for minute := range 200 {
			at := time.Duration(minute) * 7 * time.Minute
			record := debit(t, c, nil, at, 5)
			if got := used(c, record, at+c.counts()); got[0] != 0 || got[1] != 0 {
				t.Fatalf("%s: %v units count %v after a grant", algorithm, got, c.counts())
			}
		}
	}
}
