package clientlimit

import (
	"cmp"
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
// It is kept as, per window: its length in s, and in the highest two bits its age · number of
// the current bucket, which is the time divided by the window · units of the current and of the
// previous bucket; each of 32 bits, little endian. The windows of the limits come first, then
// those that only other hosts have, or that a limit had before: a grant counts in them, too. The
// age of a window is how many of its buckets have begun since a host that has it wrote; with
// maxAge it goes.
//
// A window that the record lacks starts with the sums of the others, each as if granted at the last
// possible instant. A window that is as long as the new one, or longer, has all that counts; of
// several such, the smallest sum counts. If all are shorter, the largest sum counts.
type counterRecord struct {
	now       int64
	buckets   []buckets // in the order of the limits, then the others
	converted bool      // it lacked a window, or had it only from another host
}

// Buckets are what is counted in one window.
type buckets struct {
	length            int64 // of the window, in ms
	number            int64 // of the current bucket
	age               int64 // up to maxAge
	current, previous quota.Units
}

const (
	bucketsSize = 16 // bytes that a record has per window
	ageShift    = 30 // above the length
	maxAge      = 2
)

// maxBuckets bounds a record. Of more windows, the shortest that no limit has here are dropped.
const maxBuckets = 4 * MaxLimits

func readCounter(c *Clients, text []byte, clockMs int64) *counterRecord {
	read := decodeBuckets(text)
	r := &counterRecord{now: clockMs}
	for _, b := range read {
		r.now = max(r.now, b.number*b.length)
	}
	r.buckets = make([]buckets, 0, len(c.Limits)+len(c.Kept)+len(read))
	for _, limit := range c.Limits {
		r.own(read, limit.Window.Length.Milliseconds())
	}
	for _, window := range c.Kept {
		r.own(read, window.Milliseconds())
	}
	for _, b := range read {
		if b = b.roll(r.now); b.age < maxAge && !r.has(b.length) {
			r.buckets = append(r.buckets, b)
		}
	}
	if others := r.buckets[len(c.Limits):]; len(r.buckets) > maxBuckets {
		slices.SortFunc(others, func(a, b buckets) int { return cmp.Compare(b.length, a.length) })
		r.buckets = r.buckets[:maxBuckets]
	}
	return r
}

// own adds a window that this host has, or another one that it knows of.
func (r *counterRecord) own(read []buckets, length int64) {
	if r.has(length) {
		return
	}
	at := slices.IndexFunc(read, func(b buckets) bool { return b.length == length })
	if at < 0 {
		r.converted = r.converted || len(read) > 0
		r.buckets = append(r.buckets, buckets{length: length, number: r.now / length}.converted(read, r.now))
		return
	}
	r.converted = r.converted || read[at].age > 0
	b := read[at].roll(r.now)
	b.age = 0
	r.buckets = append(r.buckets, b)
}

func (r *counterRecord) has(length int64) bool {
	return slices.ContainsFunc(r.buckets, func(b buckets) bool { return b.length == length })
}

// converted returns a new window with the sums of the others, if there are any.
func (b buckets) converted(others []buckets, now int64) buckets {
	knowsAll := slices.ContainsFunc(others, func(other buckets) bool { return other.length >= b.length })
	current, both := quota.Units(0), quota.Units(0)
	if knowsAll {
		current, both = quota.MaxUnits, quota.MaxUnits
	}
	for _, other := range others {
		late := b.late(other.roll(now))
		switch sum := late.current + late.previous; {
		case !knowsAll:
			current, both = max(current, late.current), max(both, sum)
		case other.length >= b.length:
			current, both = min(current, late.current), min(both, sum)
		}
	}
	b.current, b.previous = min(current, b.most()), min(both-current, b.most())
	return b
}

// late returns a window with the sums of another one, each granted as late as it can have been:
// those of its current bucket now, those of the previous one just before it ended.
func (b buckets) late(other buckets) buckets {
	b.current = other.current
	switch ended := other.number*other.length - 1; b.number - ended/b.length {
	case 0:
		b.current += other.previous
	case 1:
		b.previous = other.previous
	}
	return b
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
			length: 1000 * (field(0) & (1<<ageShift - 1)), age: field(0) >> ageShift,
			number: field(1), current: quota.Units(field(2)), previous: quota.Units(field(3)),
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
	b.age = min(b.age+number-b.number, maxAge)
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
		for _, n := range []int64{b.length/1000 | b.age<<ageShift, b.number, int64(b.current), int64(b.previous)} {
			text = binary.LittleEndian.AppendUint32(text, uint32(n))
		}
		endsMs = max(endsMs, (b.number+2)*b.length)
	}
	return text, endsMs
}
