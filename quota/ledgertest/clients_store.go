package ledgertest

import (
	"bytes"
	"context"
	"sync"
	"time"

	"quotad/quota/clientlimit"
)

// A ClientStore is a clientlimit.Store in memory, which can be away.
type ClientStore struct {
	clock func() time.Time

	mu      sync.Mutex // guards what follows
	records map[clientlimit.Place]clientRecord
	err     error
}

type clientRecord struct {
	value  []byte
	endsMs int64 // when it expires
}

// NewClientStore returns an empty store on a clock.
func NewClientStore(clock func() time.Time) *ClientStore {
	return &ClientStore{clock: clock, records: make(map[clientlimit.Place]clientRecord)}
}

// Fail has every swap from now on fail; nil ends that.
func (s *ClientStore) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Swap implements clientlimit.Store.
func (s *ClientStore) Swap(_ context.Context, all []*clientlimit.Swap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range all {
		if one.Err = s.err; one.Err != nil {
			continue
		}
		record, nowMs := s.records[one.Place], s.clock().UnixMilli()
		if nowMs >= record.endsMs {
			record = clientRecord{}
		}
		found := record.value
		inTime := one.ReadMs <= nowMs && (one.NotAfterMs == 0 || nowMs <= one.NotAfterMs)
		one.NowMs = nowMs
		if one.Swapped = one.Writes && bytes.Equal(found, one.Read) && inTime; one.Swapped {
			s.records[one.Place] = clientRecord{one.Next, one.EndsMs}
		} else {
			one.Found = found
		}
	}
}

// clientSwaps holds a store to the times of a swap: a decision is not written before its own time, nor late.
func clientSwaps(h *clientHistory) {
	l, real := h.ledger.(clientlimit.Decider)
	if !real {
		h.Skip("a model has no store")
	}
	now, at := h.clock.Now().UnixMilli(), clientlimit.Place{Group: "log public", Subject: "=alice"}
	var read []byte
	for i, row := range []struct {
		readMs, notAfterMs int64
		swapped            bool
	}{{0, 0, true}, {1, 0, false}, {0, -1, false}, {-100, 0, true}, {0, 50, true}} {
		one := &clientlimit.Swap{Place: at, Writes: true, Read: read, ReadMs: now + row.readMs, Next: []byte{byte(i)}, EndsMs: now + 60_000}
		if row.notAfterMs != 0 {
			one.NotAfterMs = now + row.notAfterMs
		}
		l.Swap(h.Context(), []*clientlimit.Swap{one})
		if one.Err != nil || one.Swapped != row.swapped || one.NowMs != now || !row.swapped && !bytes.Equal(one.Found, read) {
			h.Errorf("%+v: %+v", row, one)
		}
		if one.Swapped {
			read = one.Next
		}
	}
}
