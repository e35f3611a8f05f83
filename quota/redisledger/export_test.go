package redisledger

import (
	"fmt"
	"os"
	"testing"
	"time"

	"quotad/quota"
)

// WriteJournal writes the journal of a daemon that was granted n times one unit, in the hours
// before now, as it stands in segments that have ended and one that has not.
func WriteJournal(tb testing.TB, dir, credential string, n int, now time.Time) {
	tb.Helper()
	j, err := openJournal(dir, 48*time.Hour)
	if err != nil {
		tb.Fatal(err)
	}
	const batch = 100
	text := grantText(fetch("videos.list", 1, ""), "-")
	entries := make([]logLine, 0, batch)
	for i := range n {
		at := quota.ID{Ms: now.Add(time.Duration(i-n) * 10 * time.Millisecond).UnixMilli()}
		entries = append(entries, logLine{at.String(), text})
		if len(entries) == batch || i == n-1 {
			if err := j.log(credential, fmt.Sprintf("bench@%d", now.Add(-24*time.Hour).UnixMilli()), entries...); err != nil {
				tb.Fatal(err)
			}
			entries = entries[:0]
		}
	}
	if err := j.close(); err != nil {
		tb.Fatal(err)
	}
	var size int64
	for _, s := range j.segments {
		info, err := os.Stat(string(s))
		if err != nil {
			tb.Fatal(err)
		}
		size += info.Size()
	}
	tb.Logf("the journal has %d entries in %d segments of %d MB", n, len(j.segments), size>>20)
}
