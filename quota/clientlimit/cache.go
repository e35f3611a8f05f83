package clientlimit

import (
	"sync"
	"time"
)

// A Cache has records as this process wrote them last. A grant by one of them takes one call of the store instead of
// two: the store refuses it if the record is another one by then. A denial by one is none, for the same reason.
// It is safe for concurrent use.
type Cache struct {
	clock func() time.Time // only differences count

	mu         sync.Mutex // guards what follows
	young, old map[Place]keptRecord
	began      time.Time // when young did
}

type keptRecord struct {
	text []byte
	ms   int64     // the store's clock when it answered
	at   time.Time // when that was, by this process' clock
}

const (
	// keptTime is how long a record is kept. It is in memory for up to twice as long.
	keptTime = 10 * time.Second
	// keptRecords and keptSize bound what is kept: records in each half, and the bytes of one.
	keptRecords = 8192
	keptSize    = 1024
	// keptMs is how much later than its time a decision by a kept record is written. The clock of this process
	// may have stood still meanwhile.
	keptMs = 250
)

// NewKept returns what keeps records, by a clock that does not step: time.Now.
func NewCache(clock func() time.Time) *Cache { return &Cache{clock: clock} }

// get returns a record, nil if there is none, and the store's clock by now, or some time before.
func (k *Cache) get(at Place) (text []byte, clockMs int64) {
	if k == nil {
		return nil, 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r, found := k.young[at]
	if !found {
		r, found = k.old[at]
	}
	since := k.clock().Sub(r.at)
	if !found || since > keptTime {
		return nil, 0
	}
	return r.text, r.ms + since.Milliseconds()
}

// put keeps a record that was written at a time of the store's clock.
func (k *Cache) put(at Place, text []byte, clockMs int64) {
	if k == nil || len(text) > keptSize {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock()
	if k.young == nil || len(k.young) >= keptRecords || now.Sub(k.began) >= keptTime {
		k.young, k.old, k.began = make(map[Place]keptRecord), k.young, now
	}
	k.young[at] = keptRecord{text, clockMs, now}
}
