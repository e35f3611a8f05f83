package boltledger

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"time"

	"quotad/quota"
)

var errRecord = errors.New("an entry of the log is damaged")

// kinds are numbered in a record by their place here.
var kinds = []quota.Kind{quota.KindGrant, quota.KindSettlement, quota.KindAdjustment, quota.KindReset, quota.KindClosing, quota.KindOpening}

// flagSettled is the bit of a record's flags that says that it was settled.
const flagSettled = 1

// encode writes the kind, the flags, the numbers as varints, each string behind its
// length, and a checksum.
func encode(e *quota.Entry) []byte {
	b := make([]byte, 0, 64)
	flags := byte(0)
	if e.Settled {
		flags |= flagSettled
	}
	b = append(b, byte(slices.Index(kinds, e.Kind)), flags)
	for _, n := range []int64{int64(e.Count), int64(e.SettledTo), e.Grant.Ms, e.Grant.Seq, e.Asked} {
		b = binary.AppendVarint(b, n)
	}
	for _, s := range []string{e.Operation, e.By, e.Region, e.Key, e.Note} {
		b = appendString(b, s)
	}
	for _, charges := range [][]quota.Charge{e.Charges, e.GivenBack, e.Before, e.After} {
		b = binary.AppendUvarint(b, uint64(len(charges)))
		for _, charge := range charges {
			b = appendString(b, charge.Limit)
			b = binary.AppendVarint(b, int64(charge.Units))
		}
	}
	if closes(e.Kind) {
		b = appendString(b, e.Limit)
		b = binary.AppendVarint(b, millis(e.Until))
	}
	return seal(encodeID(e.ID), b)
}

// closes tells the kinds of entries that name a limit and a time.
func closes(kind quota.Kind) bool { return kind == quota.KindClosing || kind == quota.KindOpening }

// millis writes a time, and 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal ends a value with a checksum of its key and itself.
func seal(key, value []byte) []byte {
	return binary.BigEndian.AppendUint32(value, checksum(key, value))
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// unseal returns a decoder of a value, and whether it is as it was written.
func unseal(key, value []byte) (decoder, bool) {
	n := len(value) - 4
	if n < 0 || binary.BigEndian.Uint32(value[n:]) != checksum(key, value[:n]) {
		return decoder{failed: true}, false
	}
	return decoder{rest: value[:n]}, true
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func decode(id quota.ID, value []byte) (quota.Entry, error) {
	d, ok := unseal(encodeID(id), value)
	if !ok || len(d.rest) < 2 || int(d.rest[0]) >= len(kinds) {
		return quota.Entry{}, errRecord
	}
	e := quota.Entry{ID: id, At: id.Time(), Kind: kinds[d.rest[0]], Settled: d.rest[1]&flagSettled != 0}
	d.take(2)
	e.Count, e.SettledTo = max(0, d.units()), max(0, d.units())
	e.Grant = quota.ID{Ms: d.varint(), Seq: d.varint()}
	e.Asked = d.varint()
	for _, field := range []*string{&e.Operation, &e.By, &e.Region, &e.Key, &e.Note} {
		*field = d.string()
	}
	for _, field := range []*[]quota.Charge{&e.Charges, &e.GivenBack, &e.Before, &e.After} {
		*field = d.charges()
	}
	if closes(e.Kind) {
		e.Limit, e.Until = d.string(), d.time()
	}
	if d.failed || len(d.rest) > 0 {
		return quota.Entry{}, errRecord
	}
	return e, nil
}

// A decoder takes a record apart; once something is missing, all is.
type decoder struct {
	rest   []byte
	failed bool
}

// take moves on by n bytes, or fails.
func (d *decoder) take(n int) {
	if n <= 0 {
		d.failed, d.rest = true, nil
		return
	}
	d.rest = d.rest[n:]
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.take(n)
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.take(n)
	return v
}

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
	n := d.uvarint()
	if n == 0 || n > uint64(len(d.rest)) { // each takes more than a byte
		d.failed = d.failed || n > 0
		return nil
	}
	charges := make([]quota.Charge, n)
	for i := range charges {
		charges[i] = quota.Charge{Limit: d.string(), Units: d.units()}
	}
	return charges
}

func (d *decoder) string() string {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.failed, d.rest = true, nil
		return ""
	}
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}

// idSize is the size of an entry's id as a key: two big-endian numbers, so that
// the file's order is the log's.
const idSize = 16

func encodeID(id quota.ID) []byte {
	b := make([]byte, 0, idSize)
	b = binary.BigEndian.AppendUint64(b, uint64(id.Ms))
	return binary.BigEndian.AppendUint64(b, uint64(id.Seq))
}

func decodeID(b []byte) quota.ID {
	return quota.ID{
		Ms:  int64(binary.BigEndian.Uint64(b[:8])),
		Seq: int64(binary.BigEndian.Uint64(b[8:])),
	}
}
