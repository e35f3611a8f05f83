package redisledger

import (
	"strconv"
	"testing"
	"time"

	"quotad/quota/redisledger/redistest"
)

// While a limit is counted anew time goes on, and more may leave its window than
// one call takes out. A grant that comes before the rest is taken out must not keep
// the rest for another window.
func TestGrantWhileEntriesLeave(t *testing.T) {
	const window, tick = 3000, 200
	l := newLongLog(t, redistest.StartReal(t), window, tick)
	for range 3 {
		u, err := l.ledger.Usage(t.Context(), l.c)
		if err != nil {
			t.Fatal(err)
		}
		counted, err := l.client.XRange(t.Context(), l.ledger.keys(l.c.Name, "")[1], after(u.Now.Add(-window*time.Millisecond)), "+").Result()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := u.Limits[0].Used, len(counted); int(got) != want {
			t.Errorf("%d units are used, but the window holds %d", got, want)
		}
		if err := l.acquire(); err != nil {
			t.Fatal(err)
		}
	}
}

// after is the first id of a log behind a time.
func after(t time.Time) string { return strconv.FormatInt(t.UnixMilli()+1, 10) }
