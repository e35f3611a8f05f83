package clientlimit

import (
	"encoding/binary"
	"slices"

	"quotad/quota"
)

// A counterRecord has two sums per limit: c, the units granted in the bucket of the clock
// that is now, and p, those of the one before. With U units in a window of W ms, and e ms of
// the bucket over, a call for n is granted if c + ⌈p × (W−e)/W⌉ + n ≤ U.
//
// How far that is from what was granted in the trailing window, which is c and of p those
// units that were granted later than e into their bucket, say a, with 0 ≤ a ≤ p ≤ U:
//
//   - Too much: let the last grant of this bucket be e' ≤ e into it. After it, c ≤ U −
//     ⌈p × (W−e')/W⌉, so c + a ≤ U + p − ⌈p × (W−e')/W⌉, which is less than 2U. It is nearly
//     reached by a subject that spends U at the very end of a bucket, and then all that the
//     formula allows. Where p was spent evenly, a is p × (W−e)/W, and c + a ≤ U, but for the rounding.
//     Within a bucket, never more than U.
//   - Too little: what would fit c + a fits when the next bucket begins, at the latest: c is
//     all that counts then, as the whole of the bucket before. So such a denial ends in less
//     than W.
//
// On random traffic of one to ten times U, in single units with U = 60, the most in a trailing
// window is some 15 % above U, and the mean at a grant below it; in all, what is granted is
// within 2 % of what a log grants. TestCounterError prints it.
//
// It is kept as, per limit: its window in s · number of the current bucket, which is the time divided
// by the window · units of the current and of the previous bucket; each of 32 bits, little endian.
type counterRecord struct {
	now     int64
	buckets []buckets // in the order of the limits
}

// Buckets are what is counted in one window.
type buckets struct {
	length            int64 // of the window, in ms
	number            int64 // of the current bucket
	current, previous quota.Units
}

const bucketsSize = 16 // bytes that a record has per window

func readCounter(c *Clients, text []byte, clockMs int64) *counterRecord {
	read := decodeBuckets(text)
	r := &counterRecord{now: clockMs, buckets: make([]buckets, len(c.Limits))}
	for _, b := range read {
		r.now = max(r.now, b.number*b.length)
	}
	for i, limit := range c.Limits {
		length := limit.Window.Length.Milliseconds()
		b := buckets{length: length, number: r.now / length}
		if at := slices.IndexFunc(read, func(b buckets) bool { return b.length == length }); at >= 0 {
			b = read[at].roll(r.now)
		}
		r.buckets[i] = b
	}
	return r
}

// decodeBuckets returns the buckets of a record; none if it is no record.
func decodeBuckets(text []byte) []buckets {
	if len(text)%bucketsSize != 0 {
		return nil
	}
	read := make([]buckets, len(text)/bucketsSize)
	for i := range read {
		field := func(n int) int64 { return int64(binary.LittleEndian.Uint32(text[bucketsSize*i+4*n:])) }
		read[i] = buckets{
			length: 1000 * field(0), number: field(1), current: quota.Units(field(2)), previous: quota.Units(field(3)),
		}
		if read[i].length == 0 {
			return nil
		}
	}
	return read
}

// roll returns the buckets as they are at a time that is not before the current one.
func (b buckets) roll(ms int64) buckets {
	number := ms / b.length
	switch {
	case number == b.number+1:
		b.current, b.previous = 0, b.current
	case number > b.number:
		b.current, b.previous = 0, 0
	}
	b.number = number
	return b
}

// used returns what counts at a time: the current bucket, and of the previous one as much
// as there is of it in the trailing window, rounded up.
func (b buckets) used(ms int64) quota.Units {
	b = b.roll(ms)
	length := quota.Units(b.length)
	rest := length - quota.Units(ms-b.number*b.length)
	return b.current + (b.previous*rest+length-1)/length
}

// fitsAt returns the first ms at which at most that much counts, which is less than now.
func (b buckets) fitsAt(to quota.Units) (ms int64) {
	ends, length := (b.number+1)*b.length, quota.Units(b.length)
	if to >= b.current {
		return ends - int64((to-b.current)*length/b.previous)
	}
	return ends + b.length - int64(to*length/b.current)
}

// most is what a bucket counts at most: what can be multiplied exactly.
func (b buckets) most() quota.Units { return min(MaxUnits, quota.MaxUnits/quota.Units(b.length)) }

func (r *counterRecord) used(i int, ms int64) quota.Units { return r.buckets[i].used(max(ms, r.now)) }

func (r *counterRecord) fitsAt(i int, to quota.Units) (ms int64) { return r.buckets[i].fitsAt(to) }

func (r *counterRecord) debit(units quota.Units) {
	for i := range r.buckets {
		b := &r.buckets[i]
		b.current = min(b.current+units, b.most())
	}
}

func (r *counterRecord) encode() (text []byte, endsMs int64) {
	text = make([]byte, 0, bucketsSize*len(r.buckets))
	for _, b := range r.buckets {
		for _, n := range []int64{b.length / 1000, b.number, int64(b.current), int64(b.previous)} {
			text = binary.LittleEndian.AppendUint32(text, uint32(n))
		}
		endsMs = max(endsMs, (b.number+2)*b.length)
	}
	return text, endsMs
}
