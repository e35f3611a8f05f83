package clientlimit

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"quotad/quota"
)

// Memory is the store of one host. It counts by the rules of the two scripts in lua/, over a map.
//
// Of each clients it has two halves. What is written goes to the young one. When that is full, or as old as a record
// lives, it becomes the old one, and what was old is forgotten: the subjects that called longest ago.
type Memory struct {
	clock func() time.Time

	mu   sync.Mutex         // guards what follows
	kept map[string]*halves // by the name of the clients
}

type halves struct {
	Young, Old map[Key][]int64 // of a log pairs, of a counter triples: see log and counter
	BegunMs    int64           // when Young was empty
	LifeMs     int64           // of a record: the longest window, or two of a counter
	Size       int             // bytes of Young
}

// halfSize is how many bytes a half has; a record takes perRecord and its numbers.
const (
	halfSize  = 64 << 20
	perRecord = 80
)

// NewMemory returns a store without records, by a clock such as time.Now.
func NewMemory(clock func() time.Time) *Memory {
	return &Memory{clock: clock, kept: make(map[string]*halves)}
}

// Secret implements Store.
func (m *Memory) Secret(_ context.Context, ours string) (string, error) { return ours, nil }

// Forget implements Store.
func (m *Memory) Forget(_ context.Context, c Call) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.kept[c.Clients]; h != nil {
		delete(h.Young, c.Key)
		delete(h.Old, c.Key)
	}
	return nil
}

// Count implements Store.
func (m *Memory) Count(_ context.Context, c Call) (Count, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := Count{NowMs: m.clock().UnixMilli(), Granted: c.Units > 0, Limits: make([]Use, len(c.Limits))}
	h := m.kept[c.Clients]
	if h == nil {
		h = &halves{Young: make(map[Key][]int64), BegunMs: n.NowMs}
		m.kept[c.Clients] = h
	}
	h.LifeMs = c.Limits[len(c.Limits)-1].WindowMs
	decide := n.log
	if c.Algorithm == Counter {
		h.LifeMs *= 2
		decide = n.counter
	}
	if nowMs := n.NowMs; nowMs-h.BegunMs >= h.LifeMs || h.Size >= halfSize {
		*h = halves{Young: make(map[Key][]int64), Old: h.Young, BegunMs: nowMs, LifeMs: h.LifeMs}
	}
	record, young := h.Young[c.Key]
	before := perRecord + 8*len(record)
	if !young {
		record, before = h.Old[c.Key], 0
	}
	if record = decide(c, record); n.Granted {
		delete(h.Old, c.Key)
		h.Young[c.Key] = record
		h.Size += perRecord + 8*len(record) - before
	}
	return n, nil
}

// log decides by pairs, the oldest first: when a grant was made, in ms, and the units of all grants up to it. The first
// pair has left every window.
func (n *Count) log(c Call, pairs []int64) []int64 {
	if len(pairs) == 0 {
		pairs = make([]int64, 2, 4)
	}
	last := len(pairs)/2 - 1
	now, total := max(n.NowMs, pairs[2*last]), pairs[2*last+1]
	first := 0 // in the longest window
	for i, l := range c.Limits {
		edge, use := now-l.WindowMs, &n.Limits[i]
		first = 1 + sort.Search(last, func(e int) bool { return pairs[2*e+2] > edge })
		use.Used = quota.Units(total - pairs[2*first-1])
		if first <= last {
			use.NextMs, use.NextUnits = pairs[2*first]+l.WindowMs, quota.Units(pairs[2*first+1]-pairs[2*first-1])
		}
		if l.Units == 0 || use.Used+c.Units <= l.Units {
			continue
		}
		if n.Granted = false; c.Units <= l.Units { // it fits when all up to the first sum of that much have left
			enough := total - int64(l.Units-c.Units)
			e := first + sort.Search(last-first, func(e int) bool { return pairs[2*(first+e)+1] >= enough })
			use.FitsMs = pairs[2*e] + l.WindowMs
		}
	}
	if !n.Granted {
		return pairs
	}
	for i, l := range c.Limits {
		use := &n.Limits[i]
		if use.Used == 0 {
			use.NextMs = now + l.WindowMs
		}
		if use.NextMs == now+l.WindowMs {
			use.NextUnits += c.Units
		}
		use.Used += c.Units
	}
	if newest := &pairs[2*last+1]; last > 0 && pairs[2*last] == now {
		*newest += int64(c.Units)
	} else {
		pairs = append(pairs, now, total+int64(c.Units))
		last++
	}
	switch {
	case 2*first > last+2: // most of them have left
		pairs = slices.Clone(pairs[2*first-2:])
	case last > maxLogUnits:
		pairs = pairs[2:]
	}
	return pairs
}

// counter decides by the triples of each limit: the number of its window of the clock, the units in it, and those in
// the one before.
func (n *Count) counter(c Call, triples []int64) []int64 {
	now, buckets, next := n.NowMs, make([]bucket, len(c.Limits)), make([]int64, 0, 3*len(c.Limits))
	for i, l := range c.Limits {
		buckets[i].window = l.WindowMs
		if len(triples) > 0 {
			buckets[i] = bucket{l.WindowMs, triples[3*i], triples[3*i+1], triples[3*i+2]}
			now = max(now, triples[3*i]*l.WindowMs)
		}
	}
	for i, l := range c.Limits {
		b := buckets[i].at(now)
		if buckets[i] = b; l.Units > 0 && quota.Units(b.used(now))+c.Units > l.Units {
			if n.Granted = false; c.Units <= l.Units {
				n.Limits[i].FitsMs = b.falls(int64(l.Units - c.Units))
			}
		}
	}
	for i, b := range buckets {
		if n.Granted {
			b.units = min(b.units+int64(c.Units), int64(MaxUnits), int64(quota.MaxUnits)/b.window)
		}
		next = append(next, b.number, b.units, b.before)
		if used, use := b.used(now), &n.Limits[i]; used > 0 {
			use.NextMs = b.falls(used - 1)
			use.Used, use.NextUnits = quota.Units(used), quota.Units(used-b.used(use.NextMs))
		}
	}
	return next
}

// A bucket is what a counter has of a limit.
type bucket struct{ window, number, units, before int64 }

// at returns the bucket of a time that is not before its own.
func (b bucket) at(ms int64) bucket {
	switch number := ms / b.window; number {
	case b.number:
		return b
	case b.number + 1:
		return bucket{b.window, number, 0, b.units}
	default:
		return bucket{b.window, number, 0, 0}
	}
}

// used returns what counts at a time: of the window before as much as is still in the trailing one, rounded up.
func (b bucket) used(ms int64) int64 {
	b = b.at(ms)
	return b.units + b.before - b.before*(ms%b.window)/b.window
}

// falls returns when no more than that counts, which is less than now.
func (b bucket) falls(to int64) (ms int64) {
	if to >= b.units {
		return (b.number+1)*b.window - (to-b.units)*b.window/b.before
	}
	return (b.number+2)*b.window - to*b.window/b.units
}

// Save writes what Load reads.
func (m *Memory) Save(to io.Writer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return json.NewEncoder(to).Encode(m.kept)
}

// Load reads what Save wrote and may still count. After an error there are no records.
func (m *Memory) Load(from io.Reader) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := make(map[string]*halves)
	if err := json.NewDecoder(from).Decode(&kept); err != nil {
		return err
	}
	maps.DeleteFunc(kept, func(_ string, h *halves) bool { return m.clock().UnixMilli()-h.BegunMs >= 2*h.LifeMs })
	m.kept = kept
	return nil
}
