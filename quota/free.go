package quota

import (
	"sync"
	"time"
)

// A freeTally counts the calls that cost nothing: no ledger is asked about them, so no log has
// them. It counts those of the last day, since the service was made. The zero value is ready to
// use, by any number of goroutines.
type freeTally struct {
	mu    sync.Mutex // guards what follows
	calls map[freeCall]Units
	hour  int64 // the latest in which a call was counted
}

// A freeCall is what a call that costs nothing is counted as.
type freeCall struct {
	credential, by, region, operation string

	hour int64 // in which it was made, in hours since 1970
}

// Bounds of what a tally keeps: what does not fit is not counted.
const (
	freeHours = 24
	freeRows  = 1 << 16
)

// add counts a request that was granted.
func (t *freeTally) add(r Request, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	hour := now.Unix() / 3600
	if hour != t.hour {
		for call := range t.calls {
			if call.hour <= hour-freeHours {
				delete(t.calls, call)
			}
		}
		t.hour = hour
	}
	if t.calls == nil {
		t.calls = make(map[freeCall]Units)
	}
	call := freeCall{r.Credential, r.Caller.By(), r.Caller.Region, r.Operation, hour}
	if before, counted := t.calls[call]; counted || len(t.calls) < freeRows {
		t.calls[call] = add(before, r.Count)
	}
}

// addTo adds to a breakdown what was called in hours that end after since.
func (t *freeTally) addTo(b *Breakdown, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for call, count := range t.calls {
		began := time.Unix(call.hour*3600, 0).UTC()
		if call.credential == b.Credential.Name && began.Add(time.Hour).After(since) {
			e := Entry{At: began, By: call.by, Region: call.region, Body: Grant{Operation: call.operation}}
			for _, s := range []*SpentBy{b.share(&e), &b.Total} {
				s.Calls = add(s.Calls, count)
			}
		}
	}
}
