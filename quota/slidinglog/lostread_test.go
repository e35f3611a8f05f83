package slidinglog_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// A damagedFile lacks the entries of its tables while it is damaged.
type damagedFile struct {
	*ledgertest.MemFile
	damaged bool
}

type damagedTables struct{ slidinglog.Tables }

func (damagedTables) Rows(slidinglog.Table, []byte, bool) iter.Seq2[[]byte, []byte] {
	return func(func([]byte, []byte) bool) {}
}

func (f *damagedFile) View(credential string, do func(slidinglog.Tables) error) error {
	if !f.damaged {
		return f.MemFile.View(credential, do)
	}
	if err := f.MemFile.View(credential, func(t slidinglog.Tables) error { return do(damagedTables{t}) }); err != nil {
		return err
	}
	return errDisk
}

// A host that cannot read its file when the log was lost puts everything back once it can.
func TestALossWhileTheFileCannotBeRead(t *testing.T) {
	now := time.UnixMilli(1795345190000)
	store := &ledgertest.SimStore{Clock: func() int64 { return now.UnixMilli() }}
	c := (&quota.Credential{
		Name: "api", Limits: []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}},
	}).Prepared()
	file := &damagedFile{MemFile: ledgertest.NewMemFile()}
	l, err := slidinglog.Open(slidinglog.Config{
		File: file, Store: store, Credentials: []*quota.Credential{c},
		Clock: func() time.Time { return now }, Manual: true, Pause: func(context.Context, time.Duration) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	follow := func() {
		for range 40 {
			l.Follow(t.Context())
			now = now.Add(250 * time.Millisecond)
		}
	}
	follow()
	asks := []quota.Ask{{Request: quota.Request{Credential: c.Name, Operation: "list", Count: 70}, Charges: []quota.Charge{{Limit: "daily", Units: 70}}}}
	if d, err := l.Acquire(t.Context(), c, asks); err != nil || !d[0].Granted() {
		t.Fatal(d, err)
	}
	if err := l.Fold(); err != nil {
		t.Fatal(err)
	}
	store.Flush(c.Name)
	file.damaged = true
	follow()
	file.damaged = false
	follow()
	grants := 0
	for _, p := range store.Records(c.Name) {
		r, err := slidinglog.DecodeRecord(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range r.Entries {
			if e.Kind == quota.KindGrant {
				grants++
			}
		}
	}
	if grants != 1 {
		t.Errorf("the log has %d grants", grants)
	}
}
