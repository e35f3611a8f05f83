package clientlimit

import (
	"context"
	"encoding/json"
	"io"
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

	mu   sync.Mutex        // guards what follows
	kept map[string]halves // by the name of the clients
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
	return &Memory{clock: clock, kept: make(map[string]halves)}
}

// Secret implements Store.
func (m *Memory) Secret(_ context.Context, ours string) (string, error) { return ours, nil }

// Forget implements Store.
func (m *Memory) Forget(_ context.Context, c Call) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kept[c.Clients.Name].Young, c.Key)
	delete(m.kept[c.Clients.Name].Old, c.Key)
	return nil
}

// Count implements Store.
func (m *Memory) Count(_ context.Context, c Call) (Count, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	limits := c.Clients.Limits
	n := Count{NowMs: m.clock().UnixMilli(), Granted: c.Units > 0, Limits: make([]Use, len(limits))}
	h := m.kept[c.Clients.Name]
	h.LifeMs = windowMs(limits[len(limits)-1])
	decide := n.log
	if c.Clients.Algorithm == Counter {
		h.LifeMs *= 2
		decide = n.counter
	}
	if h.Young == nil || n.NowMs-h.BegunMs >= h.LifeMs || h.Size >= halfSize {
		h = halves{Young: make(map[Key][]int64), Old: h.Young, BegunMs: n.NowMs, LifeMs: h.LifeMs}
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
	m.kept[c.Clients.Name] = h
	return n, nil
}

// log decides by pairs, the oldest first: when a grant was made, in ms, and the units of all grants up to it. The first
// pair has left every window.
func (n *Count) log(c Call, pairs []int64) []int64 {
	if len(pairs) == 0 || len(pairs)%2 != 0 { // an odd number is no log: the file was edited
		pairs = make([]int64, 2, 4)
	}
	last := len(pairs)/2 - 1
	now, total := max(n.NowMs, pairs[2*last]), pairs[2*last+1]
	first := 0 // in the longest window
	for i, l := range c.Clients.Limits {
		edge, use := now-windowMs(l), &n.Limits[i]
		first = 1 + sort.Search(last, func(e int) bool { return pairs[2*e+2] > edge })
		use.Used = quota.Units(total - pairs[2*first-1])
		if first <= last {
			use.NextMs, use.NextUnits = pairs[2*first]+windowMs(l), quota.Units(pairs[2*first+1]-pairs[2*first-1])
		}
		if l.DryRun || use.Used+c.Units <= l.Units {
			continue
		}
		if n.Granted = false; c.Units <= l.Units { // it fits when all up to the first sum of that much have left
			enough := total - int64(l.Units-c.Units)
			e := first + sort.Search(last-first, func(e int) bool { return pairs[2*(first+e)+1] >= enough })
			use.FitsMs = pairs[2*e] + windowMs(l)
		}
	}
	if !n.Granted {
		return pairs
	}
	for i, l := range c.Clients.Limits {
		use, leaves := &n.Limits[i], now+windowMs(l)
		if use.Used == 0 || use.NextMs == leaves {
			use.NextMs, use.NextUnits = leaves, use.NextUnits+c.Units
		}
		use.Used += c.Units
	}
	if last == 0 || pairs[2*last] != now {
		pairs = append(pairs, now, total)
		last++
	}
	pairs[2*last+1] = total + int64(c.Units)
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
	limits, now := c.Clients.Limits, n.NowMs
	buckets, next := make([]bucket, len(limits)), make([]int64, 0, 3*len(limits))
	for i, l := range limits {
		buckets[i].window = windowMs(l)
		if len(triples) == 3*len(limits) { // else it is new, or the file was edited
			buckets[i] = bucket{windowMs(l), triples[3*i], triples[3*i+1], triples[3*i+2]}
			now = max(now, triples[3*i]*windowMs(l))
		}
	}
	for i, l := range limits {
		b := buckets[i].at(now)
		if buckets[i] = b; !l.DryRun && quota.Units(b.used(now))+c.Units > l.Units {
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

// Load reads what Save wrote and may still count, however the file was edited. After an error there are no records.
func (m *Memory) Load(from io.Reader) error {
	var kept map[string]halves
	if err := json.NewDecoder(from).Decode(&kept); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, h := range kept {
		if m.clock().UnixMilli()-h.BegunMs < 2*h.LifeMs {
			m.kept[name] = h
		}
	}
	return nil
}
