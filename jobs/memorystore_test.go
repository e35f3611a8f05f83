package jobs

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"quotad/quota"
)

// A memoryStore keeps records in memory. It cannot be reached at times.
type memoryStore struct {
	away atomic.Bool
	lose atomic.Bool // the next answer: what was swapped counts, and then it is away

	mu     sync.Mutex // guards what follows
	values map[string][]byte
}

func (s *memoryStore) ReadRecords(_ context.Context, keys []string) (values [][]byte, clocks []time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	values, clocks = make([][]byte, len(keys)), make([]time.Time, len(keys))
	if s.away.Load() {
		return values, clocks, quota.ErrUnavailable
	}
	for i, key := range keys {
		values[i], clocks[i] = s.values[key], time.Now().UTC()
	}
	return values, clocks, nil
}

func (s *memoryStore) SwapRecord(_ context.Context, keys []string, read []byte, values [][]byte, notAfter time.Time) (bool, []byte, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UTC()
	if s.away.Load() {
		return false, nil, time.Time{}, quota.ErrUnavailable
	}
	if found := s.values[keys[0]]; !bytes.Equal(found, read) || now.After(notAfter) {
		return false, found, now, nil
	}
	if s.values == nil {
		s.values = map[string][]byte{}
	}
	for i, key := range keys {
		s.values[key] = values[i]
	}
	if s.lose.CompareAndSwap(true, false) {
		s.away.Store(true)
		return false, nil, time.Time{}, quota.ErrOutcomeUnknown
	}
	return true, nil, now, nil
}
