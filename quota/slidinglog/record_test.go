package slidinglog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"slices"
	"testing"
	"time"

	"quotad/quota"
)

// someEntries are one of each kind, with all that a kind can say.
func someEntries() []quota.Entry {
	id := func(n int64) quota.ID { return offlineID(1795260896123+n, uint64(n), 77) }
	charges := []quota.Charge{{Limit: "daily", Units: 300}, {Limit: "search", Units: -300}}
	until := time.UnixMilli(1795263096123).UTC()
	return []quota.Entry{
		{ID: id(1), Gen: 3, Charges: charges, By: "trending", Region: "US", Body: quota.Grant{Operation: "search.list", Count: 3, Key: keyDigest("run/US/page-1")}},
		{ID: id(2), Gen: quota.Unplaced, Outage: true, Body: quota.Grant{Operation: "list", Count: 1}},
		{ID: id(3), Gen: 3, By: "@0", Body: quota.Settled{Grant: id(1), To: 250, Before: charges, After: charges[:1]}},
		{ID: id(4), Gen: 3, Charges: charges[1:], By: "@0", Note: "checked upstream", Body: quota.Adjusted{Asked: -500, Gives: []quota.Give{{Of: id(1), Units: 40}, {Of: id(2), Units: 1}}}},
		{ID: id(5), Gen: 4, Note: "a new project", By: "@1000", Body: quota.Reset{Until: until}},
		{ID: id(6), Gen: 4, Note: "quotaExceeded", By: "trending", Body: quota.Changed{Change: quota.KindClosing, Limit: "daily", Until: until}},
		{ID: id(7), Gen: 4, Note: "it is open", By: "@0", Body: quota.Changed{Change: quota.KindOpening, Limit: "daily"}},
	}
}

// someRecords are one of each statement, one of all entries, and one without either.
func someRecords() []Record {
	head := Record{Tag: Tag{1, 2, 3}, Host: HostID{4, 5}, Run: 77, Gen: 3, Since: 1795260000000}
	records := []Record{head}
	head.Entries = someEntries()
	records = append(records, head)
	head.Entries = nil
	for kind := Hello; kind <= Yield; kind++ {
		said := head
		said.Says = &Statement{Kind: kind, Hosts: []HostID{{1}, {2, 3}}}
		if kind == Hello {
			said.Says = &Statement{Kind: Hello, Label: "web-1", Terms: []string{"daily: 10,000 a day", ""}, Longest: 24 * time.Hour}
		}
		records = append(records, said)
	}
	return records
}

var place = quota.ID{Ms: 1795260999999, Seq: 2}

func TestRecordsAreReadBack(t *testing.T) {
	for _, want := range someRecords() {
		want.at = Placed{place, want.Body()}
		got, err := decodeRecord(want.at)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v is read back as %+v, %v", want, got, err)
		}
	}
}

func TestEntriesAreReadBack(t *testing.T) {
	for _, want := range someEntries() {
		if g, ok := want.Grant(); ok {
			g.Settled, g.SettledTo, g.SettledBy = true, 250, quota.ID{Ms: 7, Seq: 8}
			want.GivenBack = []quota.Charge{{Limit: "daily", Units: 40}}
			g.Void, g.Own = true, &quota.Granted{Count: 2, Charges: []quota.Charge{{Limit: "daily", Units: 7}}}
			want.Body = g
		}
		got, err := decode(want.ID, encode(&want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v is read back as %+v, %v", want, got, err)
		}
	}
}

// What hosts of this version wrote before is read, and what they write is read by those: other bytes
// need another recordVersion or factsVersion.
func TestFormatsKeepTheirBytes(t *testing.T) {
	sum := sha256.New()
	for _, r := range someRecords() {
		sum.Write(r.Body())
	}
	for _, e := range someEntries() {
		sum.Write(encode(&e))
	}
	if got, want := hex.EncodeToString(sum.Sum(nil)), "1e0ed746a9fd3503002c8c1f17a86f81aaab33eddf633d739a8ed19f1d9fa57f"; got != want {
		t.Errorf("records and entries have the digest %s, want %s", got, want)
	}
	until := time.UnixMilli(1795263096123).UTC()
	f, err := decodeFacts([]byte(`{"Version":5,"Standing":[
		{"ID":{"Ms":1795260896129,"Seq":7},"Kind":"closing","Gen":4,"By":"trending","Region":"","Note":"quotaExceeded","Operation":"","Grant":{"Ms":0,"Seq":0},"Before":null,"Limit":"daily","Units":0,"Until":"2026-11-21T12:11:36.123Z"}]}`))
	want := []mark{
		{quota.ID{Ms: 1795260896129, Seq: 7}, quota.KindClosing, "daily", until, "quotaExceeded", "trending"},
	}
	if err != nil || !slices.Equal(f.Standing, want) {
		t.Errorf("%+v, %v stand, want %+v", f.Standing, err, want)
	}
	if again, err := decodeFacts(f.encode()); err != nil || !slices.Equal(again.Standing, want) {
		t.Errorf("%+v, %v are read back", again.Standing, err)
	}
}

// A log may still have loans, which there are no more.
func TestAFormerLoanIsRead(t *testing.T) {
	loan, err := hex.DecodeString("08060002403000056461696c790c666f72207468652064656d6ff403f694a7e0bf68")
	if err != nil {
		t.Fatal(err)
	}
	e, err := decode(offlineID(1795260896131, 8, 77), loan)
	if err != nil || e.Kind() != formerLoan || len(e.Charges) > 0 || e.Note != "for the demo" {
		t.Errorf("%+v, %v; want a loan that charges nothing", e, err)
	}
}

// A host reads what it wrote before: other names of facts need another factsVersion.
func TestFactsKeepTheirNames(t *testing.T) {
	host := HostID{4, 5}
	file := `{"Version":5,"Hosts":{"` + host.String() + `":{"Last":1,"Left":true}},"Quiet":{"Awaited":{"` + host.String() + `":true},"Done":{"` + host.String() +
		`":true}},"Loss":{"To":7},"Dangling":[{"By":{"Ms":1},"Of":{"Ms":2}}],"Offline":[{"ID":{"Ms":3},"Units":5}]}`
	f, err := decodeFacts([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if !f.Hosts[host].Left || !f.Quiet.Awaited[host] || !f.Quiet.Done[host] || f.Loss == nil || f.Loss.To != 7 || len(f.Dangling) != 1 || len(f.Offline) != 1 {
		t.Errorf("%s is read as %+v", file, f)
	}
}

// A host applies its own record as it was made, and all others as they read it: both are the same.
func TestARecordIsPlacedAsItIsRead(t *testing.T) {
	made := Record{Tag: Tag{1, 2, 3}, Host: HostID{4, 5}, Run: 77, Gen: 3, Entries: someEntries()}
	for i := range made.Entries {
		made.Entries[i].ID, made.Entries[i].Gen, made.Entries[i].Outage = quota.ID{}, quota.Unplaced, false
	}
	at := Placed{place, made.Body()}
	made.place(at)
	read, err := decodeRecord(at)
	if err != nil || !reflect.DeepEqual(made, read) {
		t.Errorf("%+v is read as %+v, %v", made, read, err)
	}
}

// A new entry gets its name from the place of its record: no two have the same.
func TestNewEntriesGetNamesOfTheirPlace(t *testing.T) {
	r := Record{Run: 77, Gen: 3}
	for range quota.MaxAsks {
		r.Entries = append(r.Entries, quota.Entry{Gen: quota.Unplaced, Body: quota.Grant{Count: 1}})
	}
	var ids []quota.ID
	for _, seq := range []int64{0, 1, 2} {
		got, err := decodeRecord(Placed{quota.ID{Ms: place.Ms, Seq: seq}, r.Body()})
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range got.Entries {
			if e.Gen != 3 || e.ID.Ms != place.Ms || e.ID != newID(quota.ID{Ms: place.Ms, Seq: seq}, i, r.Tag) {
				t.Fatalf("entry %d is %+v", i, e)
			}
			ids = append(ids, e.ID)
		}
	}
	if !slices.IsSortedFunc(ids, quota.ID.Compare) || len(slices.Compact(ids)) != 3*quota.MaxAsks {
		t.Error("names of one instant are not in the order of their places, each once")
	}
}

// Records of other versions, and kinds of entries that this one does not know, are said to be
// so: nobody decides without them.
func TestRecordsOfAnotherVersion(t *testing.T) {
	r := Record{Entries: someEntries()[:1]}
	for name, change := range map[string]func([]byte) []byte{
		"version": func(b []byte) []byte { b[len(Tag{})]++; return b },
		"next":    func(b []byte) []byte { return append(b, byte(len(kinds)), 0) },
		"kind":    func(b []byte) []byte { return append(b, byte(Yield)+1, 0) },
		"account": func([]byte) []byte { return []byte("3 1795260896123 0") },
		"nothing": func([]byte) []byte { return nil },
	} {
		if got, err := decodeRecord(Placed{place, change(r.Body())}); err != ErrVersion {
			t.Errorf("%s: read as %+v, %v", name, got, err)
		}
	}
}

// FuzzDecodeRecord reads records as a store may hold them that others write to: each is
// refused, or is one that is written and read back as the same.
func FuzzDecodeRecord(f *testing.F) {
	for _, r := range someRecords() {
		f.Add(r.Body())
		f.Add(r.Body()[:len(r.Body())/2])
	}
	head := (&Record{}).Body()
	f.Add(append(head[:len(head)-1:len(head)-1], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f)) // of its Since
	f.Add(append((&Record{}).Body(), 2, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f))
	f.Add(append((&Record{}).Body(), 0, 4, 0, 0, 0, 0, 0, 0)) // a grant that is void
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := decodeRecord(Placed{place, bytes.Clone(body)})
		if err != nil {
			return
		}
		again, err := decodeRecord(Placed{place, r.Body()})
		if r.at = again.at; err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%+v is read back as %+v, %v", r, again, err)
		}
		for _, e := range r.Entries {
			readBack(t, e)
			g, _ := e.Grant()
			s, _ := e.Body.(quota.Settled)
			for _, amount := range append([]quota.Charge{{Units: g.Count}, {Units: s.To}}, e.Charges...) {
				if amount.Units < -quota.MaxUnits || amount.Units > quota.MaxUnits {
					t.Errorf("%d units are more than there are", amount.Units)
				}
			}
		}
	})
}

// readBack holds that a table has an entry as it is.
func readBack(t *testing.T, e quota.Entry) {
	t.Helper()
	if again, err := decode(e.ID, encode(&e)); err != nil || !reflect.DeepEqual(again, e) {
		t.Errorf("%+v is read back as %+v, %v", e, again, err)
	}
}

// FuzzDecodeEntry reads entries as a damaged table may hold them.
func FuzzDecodeEntry(f *testing.F) {
	for _, e := range someEntries() {
		f.Add(encode(&e))
	}
	f.Add([]byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, value []byte) {
		if e, err := decode(place, bytes.Clone(value)); err == nil {
			readBack(t, e)
		} else if !reflect.DeepEqual(e, quota.Entry{}) {
			t.Errorf("a refused entry is %+v", e)
		}
	})
}
