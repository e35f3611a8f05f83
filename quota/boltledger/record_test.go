package boltledger

import (
	"bytes"
	"reflect"
	"testing"

	"quotad/quota"
)

// FuzzRecord reads entries as a damaged file may hold them: each is refused, or
// is an entry that is written and read back as the same.
func FuzzRecord(f *testing.F) {
	id := quota.ID{Ms: 1795260896123, Seq: 7}
	whole := quota.Entry{
		ID: id, At: id.Time(), Kind: quota.KindGrant,
		Operation: "search.list", Count: 3, Settled: true, SettledTo: 250,
		Charges:   []quota.Charge{{Limit: "daily", Units: 300}, {Limit: "search", Units: 300}},
		GivenBack: []quota.Charge{{Limit: "daily", Units: 40}},
		By:        "trending", Region: "US", Key: "run/US/page-1",
	}
	adjusted := quota.Entry{ID: id, Kind: quota.KindAdjustment, Asked: -500, Charges: []quota.Charge{{Limit: "daily", Units: -40}}, By: "@0", Note: "checked upstream"}
	f.Add(unsealed(&whole))
	f.Add(unsealed(&adjusted))
	f.Add(unsealed(&quota.Entry{ID: id, Kind: quota.KindSettlement, Grant: id, Before: whole.Charges, After: whole.Counts()}))
	f.Add(unsealed(&whole)[:20])
	f.Add([]byte{9, 0, 0})
	f.Add([]byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, value []byte) {
		e, err := decode(id, seal(encodeID(id), bytes.Clone(value)))
		if err != nil {
			if !reflect.DeepEqual(e, quota.Entry{}) {
				t.Errorf("a refused entry is %+v", e)
			}
			return
		}
		if again, err := decode(id, encode(&e)); err != nil || !reflect.DeepEqual(again, e) {
			t.Errorf("%+v is read back as %+v, %v", e, again, err)
		}
		for _, amount := range append([]quota.Charge{{Units: e.Count}, {Units: e.SettledTo}}, e.Charges...) {
			if amount.Units < -quota.MaxUnits || amount.Units > quota.MaxUnits {
				t.Errorf("%d units are more than there are", amount.Units)
			}
		}
	})
}

// unsealed is an entry's record without its checksum.
func unsealed(e *quota.Entry) []byte {
	record := encode(e)
	return record[:len(record)-4]
}

// Each bit of a record counts.
func TestFlippedBitsOfARecord(t *testing.T) {
	e := quota.Entry{ID: quota.ID{Ms: 1795260896123}, Kind: quota.KindGrant, Operation: "list", Count: 1, Charges: []quota.Charge{{Limit: "daily", Units: 300}}}
	for i := range 8 * len(encode(&e)) {
		record := encode(&e)
		record[i/8] ^= 1 << (i % 8)
		if got, err := decode(e.ID, record); err == nil {
			t.Errorf("with bit %d flipped it is read as %+v", i, got)
		}
	}
}
