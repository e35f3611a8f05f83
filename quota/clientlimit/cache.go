package clientlimit

import (
	"sync"
	"time"
)

// A Cache has records as this process wrote them last, and where the store's clock was. A decision by a record that is
// kept, or by none where none is, takes one call of the store instead of two: the store refuses it if another record is
// there by then. A denial by a kept one is none, for the same reason. It is safe for concurrent use.
type Cache struct {
	clock func() time.Time // only differences count

	mu         sync.Mutex // guards what follows
	young, old map[Place]keptRecord
	began      time.Time // when young did
	size       int       // bytes of young
	last       keptRecord
}

type keptRecord struct {
	text []byte
	ms   int64     // the store's clock when it answered
	at   time.Time // when that was, by this process' clock
}

const (
	// keptTime is how long a record is kept. It is in memory for up to twice as long.
	keptTime = 10 * time.Second
	// keptSize bounds the bytes of each half, with keptOverhead for each record.
	keptSize     = 4 << 20
	keptOverhead = 200
	// keptMs is how much later than its time a decision by a kept record is written. The clock of this process
	// may have stood still meanwhile.
	keptMs = 250
)

// NewCache returns a cache by a clock that does not step: time.Now.
func NewCache(clock func() time.Time) *Cache { return &Cache{clock: clock} }

// get returns a record, empty if none is kept, and the store's clock by now, or some time before; 0: not known.
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
	now := k.clock()
	if !found || now.Sub(r.at) > keptTime {
		r, r.text = k.last, nil
	}
	since := now.Sub(r.at)
	if since > keptTime {
		return nil, 0
	}
	return r.text, r.ms + since.Milliseconds()
}

// put keeps a record that was written at a time of the store's clock.
func (k *Cache) put(at Place, text []byte, clockMs int64) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock()
	size := len(text) + keptOverhead
	if k.young == nil || k.size+size > keptSize || now.Sub(k.began) >= keptTime {
		k.young, k.old, k.began, k.size = make(map[Place]keptRecord), k.young, now, 0
	}
	if before, again := k.young[at]; again {
		k.size -= len(before.text) + keptOverhead
	}
	k.size += size
	k.last = keptRecord{text, clockMs, now}
	k.young[at] = k.last
}
