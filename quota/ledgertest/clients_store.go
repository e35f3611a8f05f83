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
		if one.Swapped = one.Writes && bytes.Equal(found, one.Read) && (one.NotAfterMs == 0 || nowMs <= one.NotAfterMs); one.Swapped {
			s.records[one.Place] = clientRecord{one.Next, one.EndsMs}
		} else {
			one.Found, one.NowMs = found, nowMs
		}
	}
}
