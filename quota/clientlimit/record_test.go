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
		{Log, "02 3c000000 9c5d016b" + // two limits; 60 s, at 9:00:12
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
		if most := 1 + logKeepSize + logHeadSize + logEntrySize*21; len(record) > most {
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
		entries = append(entries, text[1+logKeepSize+logHeadSize:]...)
	}
	record = append(append([]byte{1}, make([]byte, logKeepSize+logHeadSize)...), entries...) // of other windows: recounted
	for i := maxLogUnits - 1; i < maxLogUnits+3; i++ {
		at := time.Duration(i) * time.Second
		record = debit(t, c, record, at, 1)
		want := []quota.Units{60, quota.Units(min(i+1, maxLogUnits))}
		if got := used(c, record, at); got[0] != want[0] || got[1] != want[1] {
			t.Fatalf("at %v %v units count, want %v", at, got, want)
		}
	}
}

// Two hosts whose windows differ ask by turns: the one of an hour counts all that the other has
// granted in it. Once it is gone, its window costs nothing any more.
func TestHostsOfDifferingWindows(t *testing.T) {
	for algorithm, most := range map[Algorithm]int{Log: 1 + logKeepSize + logHeadSize + logEntrySize*10, Counter: bucketsSize} {
		t.Run(string(algorithm), func(t *testing.T) { playHostsOfDifferingWindows(t, algorithm, most) })
	}
}

func playHostsOfDifferingWindows(t *testing.T, algorithm Algorithm, mostBytes int) {
	short, long := limited(algorithm, 60, time.Minute), limited(algorithm, 60, time.Hour)
	var record []byte
	granted := map[*Clients]quota.Units{}
	for second := range 600 {
		for _, c := range []*Clients{long, short} {
			after, _, d := c.Decide(record, nine+int64(second)*1000, 1)
			if after != nil {
				record = after
			}
			if d.Granted() {
				granted[c]++
			}
		}
	}
	if granted[long] < 1 || granted[long] > 60 {
		t.Errorf("in ten minutes the host of an hour grants %d, want at most 60", granted[long])
	}
	if got := used(long, record, 600*time.Second)[0]; got != granted[long]+granted[short] {
		t.Errorf("%d units count in the hour, want %d", got, granted[long]+granted[short])
	}
	for minute := range 240 {
		record = debit(t, short, record, 12*time.Minute+time.Duration(2*minute)*time.Minute, 60)
	}
	if len(record) > mostBytes {
		t.Errorf("hours later the record has %d bytes, want at most %d", len(record), mostBytes)
	}
}

// However many windows there were, a counter's record keeps a bounded number of them.
func TestCounterKeepsFewWindows(t *testing.T) {
	var record []byte
	for minutes := range 100 {
		record = debit(t, limited(Counter, 1000, time.Hour+time.Duration(minutes)*time.Minute), record, 0, 1)
	}
	if got, most := len(record), maxBuckets*bucketsSize; got > most {
		t.Errorf("the record has %d bytes, want at most %d", got, most)
	}
	if got := used(limited(Counter, 1000, 24*time.Hour), record, 0)[0]; got != 100 {
		t.Errorf("%d units count in a day, want 100", got)
	}
}
