package slidinglog

import (
	"encoding/binary"
	"math"
	"time"

	"quotad/quota"
)

// A codec writes values one after the other, or reads them back. Each method describes both
// directions of a format. Writing changes nothing but b.
type codec struct {
	reading bool
	b       []byte // the output, or the rest of the input
	failed  bool   // the input was too short or out of range; the rest reads as zero
}

func (c *codec) fail() { c.failed, c.b = true, nil }

// next reads n bytes, nil if there are fewer.
func (c *codec) next(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.fail()
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

// raw codes the bytes of an array.
func (c *codec) raw(b []byte) {
	if !c.reading {
		c.b = append(c.b, b...)
		return
	}
	copy(b, c.next(len(b)))
}

func (c *codec) byte(v *byte) {
	if !c.reading {
		c.b = append(c.b, *v)
	} else if b := c.next(1); b != nil {
		*v = b[0]
	}
}

// flags codes up to eight flags, the first in the lowest bit.
func (c *codec) flags(list ...*bool) {
	var bits byte
	for i, flag := range list {
		if *flag {
			bits |= 1 << i
		}
	}
	c.byte(&bits)
	for i, flag := range list {
		if c.reading {
			*flag = bits&(1<<i) != 0
		}
	}
}

func (c *codec) varint(v *int64) {
	if !c.reading {
		c.b = binary.AppendVarint(c.b, *v)
		return
	}
	n := 0
	*v, n = binary.Varint(c.b)
	c.skip(n)
}

// uvarint codes a number that is not negative, and at most max.
func (c *codec) uvarint(v *int64, max uint64) {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, uint64(*v))
		return
	}
	u, n := binary.Uvarint(c.b)
	if c.skip(n); u > max {
		c.fail()
		u = 0
	}
	*v = int64(u)
}

// skip skips the n bytes of a number, at least one.
func (c *codec) skip(n int) {
	if n <= 0 {
		n = -1
	}
	c.next(n)
}

// maxMillis is the greatest time that a store's clock can show.
const maxMillis = 1<<53 - 1

func (c *codec) id(id *quota.ID) {
	c.varint(&id.Ms)
	c.uvarint(&id.Seq, math.MaxUint64)
}

// idSize is the size of an id as a key.
const idSize = 16

// idKey returns the key of an id in a table, nil for the zero id: two big-endian numbers, so that the
// order of the keys is that of the ids.
func idKey(id quota.ID) []byte {
	if id.IsZero() {
		return nil
	}
	b := binary.BigEndian.AppendUint64(make([]byte, 0, idSize), uint64(id.Ms))
	return binary.BigEndian.AppendUint64(b, uint64(id.Seq))
}

// keyID returns the id of a key.
func keyID(b []byte) (id quota.ID, err error) {
	if len(b) != idSize {
		return id, errRecord
	}
	return quota.ID{Ms: int64(binary.BigEndian.Uint64(b)), Seq: int64(binary.BigEndian.Uint64(b[8:]))}, nil
}

// time codes an instant in ms, and the zero time as 0.
func (c *codec) time(t *time.Time) {
	ms := int64(0)
	if !t.IsZero() {
		ms = t.UnixMilli()
	}
	if c.varint(&ms); c.reading && ms != 0 {
		*t = time.UnixMilli(ms).UTC()
	}
}

// count codes units that are not negative.
func (c *codec) count(u *quota.Units) { c.uvarint((*int64)(u), uint64(quota.MaxUnits)) }

// units codes units that may be negative.
func (c *codec) units(u *quota.Units) {
	c.varint((*int64)(u))
	c.failed = c.failed || *u > quota.MaxUnits || *u < -quota.MaxUnits
}

func (c *codec) string(s *string) {
	n := c.length(len(*s))
	if !c.reading {
		c.b = append(c.b, *s...)
		return
	}
	*s = string(c.next(n))
}

func (c *codec) charges(charges *[]quota.Charge) {
	list(c, charges, func(charge *quota.Charge) {
		c.string(&charge.Limit)
		c.units(&charge.Units)
	})
}

// length codes the number of items that follow, each of at least one byte.
func (c *codec) length(n int) int {
	v := int64(n)
	if c.uvarint(&v, math.MaxInt64); c.reading && v > int64(len(c.b)) {
		c.fail()
		v = 0
	}
	return int(v)
}

// list codes a list, each item by f.
func list[T any](c *codec, items *[]T, f func(*T)) {
	n := c.length(len(*items))
	if c.reading && n > 0 {
		*items = make([]T, n)
	}
	for i := range *items {
		f(&(*items)[i])
	}
}
