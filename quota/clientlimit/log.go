package clientlimit

import (
	"encoding/binary"

	"quotad/quota"
)

// A logRecord has each grant with its time: what a window counts is exact. A grant made at
// t counts in a window of length w until t+w, exclusive.
//
// It is kept as the number of limits, in a byte. Then per limit: window in s, 32 bits · which entry
// is the first that counts, from 0, 32 bits · units in the window, 64 bits. Then the entries, oldest
// first: time in ms, 48 bits · units, 32 bits; all little endian. Entries of one ms are one. A
// decision reads what leaves a window, and not what is in it; what has left all windows is cut off
// when it is more than half.
type logRecord struct {
	now     int64
	windows []logWindow // in the order of the limits

	// The entries: kept ones of those that were read, which are not ours to change, and
	// then the newest, once there is a grant.
	entries []byte
	kept    int
	granted bool
	newest  quota.Units // at now
}

type logWindow struct {
	length int64 // in ms
	first  int   // the first entry that counts
	units  quota.Units
}

const (
	logHeadSize  = 16 // per limit
	logEntrySize = 10
)

func readLog(c *Clients, text []byte, clockMs int64) *logRecord {
	r := &logRecord{now: clockMs, windows: make([]logWindow, len(c.Limits))}
	heads := r.cut(text)
	if n := r.kept; n > 0 {
		ms, _ := r.entry(n - 1)
		r.now = max(r.now, ms)
	}
	for i, limit := range c.Limits {
		w := r.window(heads, limit.Window.Length.Milliseconds())
		r.windows[i] = r.after(w, r.now)
	}
	return r
}

// cut splits a record into the heads of its windows and its entries. What is no record has neither.
func (r *logRecord) cut(text []byte) (heads []byte) {
	if len(text) == 0 {
		return nil
	}
	size := 1 + logHeadSize*int(text[0])
	if len(text) < size || (len(text)-size)%logEntrySize != 0 {
		return nil
	}
	r.entries, r.kept = text[size:], (len(text)-size)/logEntrySize
	return text[1:size]
}

// window finds a window in the heads. One that they lack counts every entry.
func (r *logRecord) window(heads []byte, length int64) logWindow {
	for ; len(heads) > 0; heads = heads[logHeadSize:] {
		first := int(binary.LittleEndian.Uint32(heads[4:]))
		if int64(binary.LittleEndian.Uint32(heads))*1000 == length && first <= r.kept {
			return logWindow{length, first, quota.Units(binary.LittleEndian.Uint64(heads[8:]))}
		}
	}
	w := logWindow{length: length}
	for i := range r.kept {
		_, units := r.entry(i)
		w.units += units
	}
	return w
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
	expired := r.oldest()
	if 2*expired <= r.len() {
		expired = 0
	}
	text = make([]byte, 0, 1+logHeadSize*len(r.windows)+logEntrySize*(r.len()-expired))
	text = append(text, byte(len(r.windows)))
	for _, w := range r.windows {
		endsMs = max(endsMs, r.now+w.length)
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
	return text, endsMs
}
