package ledgertest

import (
	"testing"
	"time"

	"quotad/quota"
)

// A fixedWindow counts by the minute of the clock, and begins at 0 with each.
type fixedWindow struct {
	minute time.Time
	count  int
}

func (w *fixedWindow) accepts(at time.Time, limit int) bool {
	if minute := at.Truncate(time.Minute); !w.minute.Equal(minute) {
		*w = fixedWindow{minute: minute}
	}
	if w.count >= limit {
		return false
	}
	w.count++
	return true
}

// A twoBuckets counts this minute of the clock and the one before, and takes what the last
// one held to have come evenly.
type twoBuckets struct {
	before, now fixedWindow
}

func (w *twoBuckets) accepts(at time.Time, limit int) bool {
	minute := at.Truncate(time.Minute)
	if !w.now.minute.Equal(minute) {
		w.before, w.now = w.now, fixedWindow{minute: minute}
	}
	left := 1 - float64(at.Sub(minute))/float64(time.Minute)
	if float64(w.before.count)*left+float64(w.now.count)+1 > float64(limit) {
		return false
	}
	w.now.count++
	return true
}

// boundary plays a burst on each side of a full minute, and one later, against a limit of
// 50 in any minute. All of it lies within 40 seconds.
func boundary(t *testing.T, harness Harness) {
	const limit, burst = 50, 60
	h := begin(t, harness, one(limit, quota.Sliding(time.Minute)))
	fixed, two := &fixedWindow{}, &twoBuckets{}
	var byFixed, byTwo, byLog int
	edge := h.clock.Now().Truncate(time.Minute).Add(time.Minute)
	for _, at := range []time.Time{edge.Add(-time.Second), edge.Add(time.Second), edge.Add(30 * time.Second)} {
		h.clock.Set(at)
		for range burst {
			if fixed.accepts(at, limit) {
				byFixed++
			}
			if two.accepts(at, limit) {
				byTwo++
			}
			if h.acquire(quota.Request{Operation: "list"}).Granted() {
				byLog++
			}
		}
	}
	t.Logf("a limit of %d in any minute; %d calls a second before the minute, one behind it, and half a minute behind it. Accepted:", limit, burst)
	t.Logf("%4d  by a counter of fixed minutes", byFixed)
	t.Logf("%4d  by two buckets, of this minute and the last one", byTwo)
	t.Logf("%4d  by the log", byLog)
	if byFixed != 100 || byTwo != 75 || byLog != limit {
		t.Errorf("got %d, %d and %d accepted, want 100, 75 and %d", byFixed, byTwo, byLog, limit)
	}
	h.used(limit)
}
