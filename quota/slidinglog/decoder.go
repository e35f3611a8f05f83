package slidinglog

import (
	"encoding/binary"
	"time"

	"quotad/quota"
)

// A decoder takes a value apart; once something is missing, all is.
type decoder struct {
	rest   []byte
	failed bool
}

// bytes returns the next n bytes, nil if there are not so many.
func (d *decoder) bytes(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.failed, d.rest = true, nil
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) skip(n int) {
	if n <= 0 {
		n = -1
	}
	d.bytes(n)
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.skip(n)
	return v
}

// mostMillis is the greatest time that a store's clock can show.
const mostMillis = 1<<53 - 1

// upTo reads a number that is not greater than most.
func (d *decoder) upTo(most uint64) uint64 {
	n := d.uvarint()
	if n > most {
		d.failed, d.rest = true, nil
		return 0
	}
	return n
}

// count reads how many of something follow, each of which takes a byte at least.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.failed, d.rest = true, nil
		return 0
	}
	return int(n)
}

func (d *decoder) id() quota.ID { return quota.ID{Ms: d.varint(), Seq: int64(d.uvarint())} }

// time reads what millis wrote.
func (d *decoder) time() time.Time {
	ms := d.varint()
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func (d *decoder) units() quota.Units {
	v := quota.Units(d.varint())
	if v > quota.MaxUnits || v < -quota.MaxUnits {
		d.failed = true
	}
	return v
}

func (d *decoder) charges() []quota.Charge {
	n := d.count()
	if n == 0 {
		return nil
	}
	charges := make([]quota.Charge, n)
	for i := range charges {
		charges[i] = quota.Charge{Limit: d.string(), Units: d.units()}
	}
	return charges
}

func (d *decoder) string() string { return string(d.bytes(d.count())) }
