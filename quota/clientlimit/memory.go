package clientlimit

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"quotad/quota"
)

// Memory is the store of one host. It counts by the rules of the two scripts in lua/, over a map.
//
// For each group of clients it has two halves. What is written goes to the young one. When that is full, or as old as its
// longest record lives, it becomes the old one, and what was old is forgotten: the subjects that called longest ago.
type Memory struct {
	clock func() time.Time

	mu   sync.Mutex // guards what follows
	kept map[life]*halves
}

// A life is the records of clients that live as long.
type life struct {
	clients string
	lifeMs  int64
}

type halves struct {
	young, old map[Key][]int64 // of a log pairs, of a counter triples: see log and counter
	begunMs    int64           // when young was empty
	size       int             // bytes of young
}

// halfSize is how many bytes a half has; a record takes perRecord and its numbers.
const (
	halfSize  = 64 << 20
	perRecord = 80
)

// NewMemory returns a store without records, by a clock such as time.Now.
func NewMemory(clock func() time.Time) *Memory {
	return &Memory{clock: clock, kept: make(map[life]*halves)}
}

// Secret implements Store.
func (m *Memory) Secret(_ context.Context, ours string) (string, error) { return ours, nil }

// Forget implements Store.
func (m *Memory) Forget(_ context.Context, c Call) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for of, h := range m.kept {
		if of.clients == c.Clients {
			delete(h.young, c.Key)
			delete(h.old, c.Key)
		}
	}
	return nil
}

// Count implements Store.
func (m *Memory) Count(_ context.Context, c Call) (Count, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := Count{NowMs: m.clock().UnixMilli(), Granted: c.Units > 0, Limits: make([]Use, len(c.Limits))}
	h := m.of(c, n.NowMs)
	record, found := h.young[c.Key]
	if !found {
		record = h.old[c.Key]
	}
	if size := 3 * len(c.Limits); c.Algorithm == Counter && len(record) != size || len(record)%2 != 0 && c.Algorithm == Log {
		record = nil // the file was damaged
	}
	before := len(record)
	if c.Algorithm == Counter {
		record = n.counter(c, record)
	} else {
		record = n.log(c, record)
	}
	if !n.Granted {
		return n, nil
	}
	if !found {
		delete(h.old, c.Key)
		before = -perRecord / 8
	}
	h.young[c.Key] = record
	h.size += 8 * (len(record) - before)
	return n, nil
}

// of returns the halves that have the records of a call.
func (m *Memory) of(c Call, nowMs int64) *halves {
	at := life{c.Clients, c.Limits[len(c.Limits)-1].WindowMs}
	if c.Algorithm == Counter {
		at.lifeMs *= 2
	}
	h := m.kept[at]
	if h == nil { // a group that is configured no more goes then
		maps.DeleteFunc(m.kept, func(of life, h *halves) bool { return nowMs-h.begunMs > 2*of.lifeMs })
		h = &halves{young: make(map[Key][]int64), begunMs: nowMs}
		m.kept[at] = h
	}
	if nowMs-h.begunMs >= at.lifeMs || h.size >= halfSize {
		h.young, h.old, h.begunMs, h.size = make(map[Key][]int64), h.young, nowMs, 0
	}
	return h
}

// log decides by pairs, the oldest first: when a grant was made, in ms, and the units of all grants up to it. The first
// pair has left every window.
func (n *Count) log(c Call, pairs []int64) []int64 {
	if pairs == nil {
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

// counter decides by the triples of each limit: the number of its window of the clock, the units in it, and those in the
// one before.
func (n *Count) counter(c Call, triples []int64) []int64 {
	now, next := n.NowMs, make([]int64, 3*len(c.Limits))
	for i, l := range c.Limits {
		if triples != nil {
			now = max(now, triples[3*i]*l.WindowMs)
		}
	}
	for i, l := range c.Limits {
		b := bucket{l.WindowMs, 0, 0, 0}
		if triples != nil {
			b = bucket{l.WindowMs, triples[3*i], triples[3*i+1], triples[3*i+2]}
		}
		b = b.at(now)
		next[3*i], next[3*i+1], next[3*i+2] = b.number, b.units, b.before
		if used := quota.Units(b.used(now)); l.Units > 0 && used+c.Units > l.Units {
			if n.Granted = false; c.Units <= l.Units {
				n.Limits[i].FitsMs = b.falls(int64(l.Units - c.Units))
			}
		}
	}
	for i, l := range c.Limits {
		if n.Granted {
			next[3*i+1] = min(next[3*i+1]+int64(c.Units), int64(MaxUnits), int64(quota.MaxUnits)/l.WindowMs)
		}
		b, use := bucket{l.WindowMs, next[3*i], next[3*i+1], next[3*i+2]}, &n.Limits[i]
		if used := b.used(now); used > 0 {
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

// Save writes what Load reads: a line for each group, and below it one for each record.
func (m *Memory) Save(to io.Writer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := bufio.NewWriter(to)
	for of, h := range m.kept {
		fmt.Fprintf(w, "clients %s %d %d\n", of.clients, of.lifeMs, h.begunMs)
		for _, half := range []map[Key][]int64{h.old, h.young} {
			for key, record := range half {
				w.WriteString(key.String())
				for _, number := range record {
					w.WriteString(" " + strconv.FormatInt(number, 10))
				}
				w.WriteByte('\n')
			}
		}
	}
	return w.Flush()
}

// Load adds what Save wrote, up to the first line that it did not write.
func (m *Memory) Load(from io.Reader) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	lines, h := bufio.NewScanner(from), (*halves)(nil)
	lines.Buffer(nil, math.MaxInt32)
	for at := 1; lines.Scan(); at++ {
		fields := strings.Fields(lines.Text())
		var numbers []int64
		for _, field := range fields[min(1, len(fields)):] {
			if number, err := strconv.ParseInt(field, 10, 64); err == nil && number >= 0 {
				numbers = append(numbers, number)
			}
		}
		var key Key
		switch {
		case len(fields) == 4 && len(numbers) == 2 && fields[0] == "clients":
			h = &halves{young: make(map[Key][]int64), begunMs: numbers[1]}
			m.kept[life{fields[1], numbers[0]}] = h
			continue
		case h != nil && len(numbers) > 0 && len(numbers) == len(fields)-1 && len(fields[0]) == 2*len(key):
			if _, err := hex.Decode(key[:], []byte(fields[0])); err == nil {
				h.young[key] = numbers
				h.size += perRecord + 8*len(numbers)
				continue
			}
		}
		return fmt.Errorf("line %d is damaged", at)
	}
	return lines.Err()
}
