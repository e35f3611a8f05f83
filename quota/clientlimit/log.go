package clientlimit

import (
	"encoding/binary"

	"quotad/quota"
)

// A logRecord has each grant with its time: what a window counts is exact. A grant made at
// t counts in a window of length w until t+w, exclusive.
//
// It is kept as the number of limits, in a byte, the longest window of any host, in s, and when a
// host that has it wrote last, in s since 1970, 32 bits each. Then per limit: window in s, 32
// bits · which entry is the first that counts, from 0, 32 bits · units in the window, 64 bits.
// Then the entries, oldest first: time in ms, 48 bits · units, 32 bits; all little endian. Entries
// of one ms are one. A decision reads what leaves a window, and not what is in it; what has
// left all windows is cut off when it is more than half. Where the windows are others than
// the record's, they count all entries that are still there.
//
// Hosts whose windows differ cut off nothing that one of them counts: the longest window is that
// of a host that wrote within it.
type logRecord struct {
	now     int64
	windows []logWindow // in the order of the limits
	longest int64       // of the windows that this host has or knows of, in ms
	keep    int64       // the longest window of any host, in ms
	keptAt  int64       // when a host that has it wrote last, in ms

	// The entries: kept ones of those that were read, which are not ours to change, and
	// then the newest, once there is a grant.
	entries []byte
	kept    int
	granted bool
	newest  quota.Units // at now

	converted bool // it outlives the windows that it names: it would go with them
}

type logWindow struct {
	length int64 // in ms
	first  int   // the first entry that counts
	units  quota.Units
}

const (
	logKeepSize  = 8
	logHeadSize  = 16 // per limit
	logEntrySize = 10
)

func readLog(c *Clients, text []byte, clockMs int64) *logRecord {
	r := &logRecord{now: clockMs, windows: make([]logWindow, len(c.Limits))}
	for _, window := range c.Kept {
		r.longest = max(r.longest, window.Milliseconds())
	}
	head, ok := r.cut(text)
	if n := r.kept; n > 0 {
		ms, _ := r.entry(n - 1)
		r.now = max(r.now, ms)
	}
	for i, limit := range c.Limits {
		w := logWindow{length: limit.Window.Length.Milliseconds()}
		r.longest = max(r.longest, w.length)
		if ok = ok && len(head) == logHeadSize*len(c.Limits); ok {
			stands := head[logHeadSize*i:]
			w.first, w.units = int(binary.LittleEndian.Uint32(stands[4:])), quota.Units(binary.LittleEndian.Uint64(stands[8:]))
			ok = int64(binary.LittleEndian.Uint32(stands))*1000 == w.length && w.first <= r.kept
		}
		r.windows[i] = w
	}
	if r.now-r.keptAt >= r.keep {
		r.keep = 0 // no host has it any more, or that host counts nothing of this any more
	}
	if !ok {
		r.recount()
	}
	r.converted = r.kept > 0 && max(longestOf(head), r.keep) < r.longest
	for i, w := range r.windows {
		r.windows[i] = r.after(w, r.now)
	}
	return r
}

// cut splits a record into its head and its entries. What is no record has neither.
func (r *logRecord) cut(text []byte) (head []byte, ok bool) {
	if len(text) == 0 {
		return nil, false
	}
	size := 1 + logKeepSize + logHeadSize*int(text[0])
	if len(text) < size || (len(text)-size)%logEntrySize != 0 {
		return nil, false
	}
	r.entries, r.kept = text[size:], (len(text)-size)/logEntrySize
	r.keep, r.keptAt = 1000*int64(binary.LittleEndian.Uint32(text[1:])), 1000*int64(binary.LittleEndian.Uint32(text[5:]))
	return text[1+logKeepSize : size], true
}

// recount makes every window count all entries.
func (r *logRecord) recount() {
	sum := quota.Units(0)
	for i := range r.kept {
		_, units := r.entry(i)
		sum += units
	}
	for i := range r.windows {
		r.windows[i].first, r.windows[i].units = 0, sum
	}
}

// after returns a window without what has left it by a time.
func (r *logRecord) after(w logWindow, ms int64) logWindow {
	for w.first < r.len() {
		at, units := r.entry(w.first)
		if at > ms-w.length {
			break
		}
		w.first++
		w.units -= units
	}
	return w
}

func (r *logRecord) len() int {
	if r.granted {
		return r.kept + 1
	}
	return r.kept
}

func (r *logRecord) entry(i int) (ms int64, units quota.Units) {
	if i == r.kept {
		return r.now, r.newest
	}
	e := r.entries[logEntrySize*i:][:logEntrySize]
	low, high := binary.LittleEndian.Uint32(e), binary.LittleEndian.Uint16(e[4:])
	return int64(high)<<32 | int64(low), quota.Units(binary.LittleEndian.Uint32(e[6:]))
}

func (r *logRecord) used(i int, ms int64) quota.Units { return r.after(r.windows[i], ms).units }

// fitsAt walks from the oldest grant until enough has left.
func (r *logRecord) fitsAt(i int, to quota.Units) (ms int64) {
	w := &r.windows[i]
	left := w.units
	for e := w.first; left > to && e < r.len(); e++ {
		at, units := r.entry(e)
		left -= units
		ms = at + w.length
	}
	return ms
}

// longestOf is the longest window that a record names.
func longestOf(head []byte) (ms int64) {
	for ; len(head) >= logHeadSize; head = head[logHeadSize:] {
		ms = max(ms, int64(binary.LittleEndian.Uint32(head))*1000)
	}
	return ms
}

func (r *logRecord) debit(units quota.Units) {
	r.bound()
	before := quota.Units(0)
	if r.kept > 0 {
		if ms, last := r.entry(r.kept - 1); ms == r.now {
			before = last
			r.kept--
		}
	}
	r.granted, r.newest = true, min(before+units, MaxUnits)
	for i := range r.windows {
		r.windows[i].units += r.newest - before
	}
}

// bound drops the oldest entry from windows that have the most entries allowed. Only limits that
// are not enforced get there: the others count no more entries than they have units. What such
// a limit still counts is all that it may have, so its state stays the same.
func (r *logRecord) bound() {
	oldest := r.oldest()
	if r.kept-oldest < maxLogUnits {
		return
	}
	_, units := r.entry(oldest)
	for i := range r.windows {
		if w := &r.windows[i]; w.first == oldest {
			w.first++
			w.units -= units
		}
	}
}

// oldest is the first entry that counts in any window.
func (r *logRecord) oldest() int {
	oldest := r.len()
	for _, w := range r.windows {
		oldest = min(oldest, w.first)
	}
	return oldest
}

func (r *logRecord) encode() (text []byte, endsMs int64) {
	if r.longest >= r.keep {
		r.keep, r.keptAt = r.longest, r.now
	}
	expired := r.oldest()
	for expired > max(0, r.len()-maxLogUnits) {
		if ms, _ := r.entry(expired - 1); ms <= r.now-r.keep {
			break
		}
		expired--
	}
	if 2*expired <= r.len() || !r.granted { // a denial drops nothing that another host may count
		expired = 0
	}
	text = make([]byte, 0, 1+logKeepSize+logHeadSize*len(r.windows)+logEntrySize*(r.len()-expired))
	text = append(text, byte(len(r.windows)))
	text = binary.LittleEndian.AppendUint32(text, uint32(r.keep/1000))
	text = binary.LittleEndian.AppendUint32(text, uint32(r.keptAt/1000))
	for _, w := range r.windows {
		text = binary.LittleEndian.AppendUint32(text, uint32(w.length/1000))
		text = binary.LittleEndian.AppendUint32(text, uint32(w.first-expired))
		text = binary.LittleEndian.AppendUint64(text, uint64(w.units))
	}
	text = append(text, r.entries[logEntrySize*expired:logEntrySize*r.kept]...)
	if r.granted {
		text = binary.LittleEndian.AppendUint32(text, uint32(r.now))
		text = binary.LittleEndian.AppendUint16(text, uint16(r.now>>32))
		text = binary.LittleEndian.AppendUint32(text, uint32(r.newest))
	}
	return text, r.now + r.keep
}
