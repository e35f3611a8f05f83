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
	whole := record{quota.Record{
		Debit: quota.Debit{
			ID: id, Operation: "search.list", Count: 3, Settled: true, SettledTo: 250,
			Recorded: []quota.Recorded{{Limit: "daily", Units: 300}, {Limit: "search", Units: 300}},
		},
		By: "trending", Region: "US", Key: "run/US/page-1", Note: "settle",
	}}
	f.Add(whole.encode())
	f.Add(record{}.encode())
	f.Add(whole.encode()[:20])
	f.Add([]byte{recordVersion + 1, 0})
	f.Add([]byte{recordVersion, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := decodeRecord(id, value)
		if err != nil {
			if !reflect.DeepEqual(r, record{}) {
				t.Errorf("a refused entry is %+v", r)
			}
			return
		}
		if again, err := decodeRecord(id, r.encode()); err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%+v is read back as %+v, %v", r, again, err)
		}
		for _, amount := range append([]quota.Recorded{{Units: r.Count}, {Units: r.SettledTo}}, r.Recorded...) {
			if amount.Units < 0 || amount.Units > quota.MaxUnits {
				t.Errorf("%d units are more than there are", amount.Units)
			}
		}
		if bytes.Equal(value, whole.encode()) && !reflect.DeepEqual(r, whole) {
			t.Errorf("got %+v, want %+v", r, whole)
		}
	})
}
