package boltledger

import (
	"encoding/binary"
	"errors"

	"quotad/quota"
)

// A record is one entry as the file has it.
type record struct{ quota.Record }

// recordVersion begins every record, so that a later format can be told apart.
const recordVersion = 1

// The bits of a record's flags.
const flagSettled = 1

var errRecord = errors.New("an entry of the log is damaged")

// encode writes the version, the flags, the numbers as varints, and each string
// behind its length.
func (r record) encode() []byte {
	b := make([]byte, 0, 64)
	flags := byte(0)
	if r.Settled {
		flags |= flagSettled
	}
	b = append(b, recordVersion, flags)
	b = binary.AppendUvarint(b, uint64(r.Count))
	if r.Settled {
		b = binary.AppendUvarint(b, uint64(r.SettledTo))
	}
	for _, s := range []string{r.Operation, r.By, r.Region, r.Key, r.Note} {
		b = appendString(b, s)
	}
	for _, charge := range r.Recorded {
		b = appendString(b, charge.Limit)
		b = binary.AppendUvarint(b, uint64(charge.Units))
	}
	return b
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func decodeRecord(id quota.ID, value []byte) (record, error) {
	if len(value) < 2 || value[0] != recordVersion {
		return record{}, errRecord
	}
	r := record{quota.Record{Debit: quota.Debit{ID: id}}}
	r.Settled = value[1]&flagSettled != 0
	d := decoder{rest: value[2:]}
	r.Count = d.units()
	if r.Settled {
		r.SettledTo = d.units()
	}
	for _, field := range []*string{&r.Operation, &r.By, &r.Region, &r.Key, &r.Note} {
		*field = d.string()
	}
	for len(d.rest) > 0 && !d.failed {
		r.Recorded = append(r.Recorded, quota.Recorded{Limit: d.string(), Units: d.units()})
	}
	if d.failed {
		return record{}, errRecord
	}
	return r, nil
}

// A decoder takes a record apart; once something is missing, all is.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) units() quota.Units {
	v := d.uvarint()
	if v > uint64(quota.MaxUnits) {
		d.failed = true
		return 0
	}
	return quota.Units(v)
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
