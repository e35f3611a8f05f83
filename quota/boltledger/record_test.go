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
	adjusted := quota.Entry{Kind: quota.KindAdjustment, Asked: -500, Charges: []quota.Charge{{Limit: "daily", Units: -40}}, By: "@0", Note: "checked upstream"}
	f.Add(encode(&whole))
	f.Add(encode(&adjusted))
	f.Add(encode(&quota.Entry{Kind: quota.KindSettlement, Grant: id, Before: whole.Charges, After: whole.Counts()}))
	f.Add(encode(&whole)[:20])
	f.Add([]byte{recordVersion + 1, 0, 0})
	f.Add([]byte{recordVersion, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, value []byte) {
		e, err := decode(id, value)
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
		if bytes.Equal(value, encode(&whole)) && !reflect.DeepEqual(e, whole) {
			t.Errorf("got %+v, want %+v", e, whole)
		}
	})
}
