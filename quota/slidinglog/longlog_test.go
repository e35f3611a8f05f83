package slidinglog_test

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"
	"testing"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// A watchedFile records what its folds write and how many marks are read.
type watchedFile struct {
	*ledgertest.MemFile
	unordered, folds, most, marks int
}

func (f *watchedFile) Fold(changes []slidinglog.TableChange) error {
	f.folds++
	for _, c := range changes {
		f.most = max(f.most, len(c.Rows))
		inOrder := func(x, y slidinglog.Row) int {
			return cmp.Or(cmp.Compare(x.Table, y.Table), bytes.Compare(x.Key, y.Key))
		}
		if !slices.IsSortedFunc(c.Rows, inOrder) {
			f.unordered++
		}
	}
	return f.MemFile.Fold(changes)
}

func (f *watchedFile) View(credential string, do func(slidinglog.Tables) error) error {
	return f.MemFile.View(credential, func(t slidinglog.Tables) error { return do(watchedTables{t, f}) })
}

type watchedTables struct {
	slidinglog.Tables
	f *watchedFile
}

func (t watchedTables) Rows(table slidinglog.Table, after []byte, back bool) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for key, value := range t.Tables.Rows(table, after, back) {
			if table == slidinglog.MarkTable {
				t.f.marks++
			}
			if !yield(key, value) {
				return
			}
		}
	}
}

// A host reads a long log, and puts it back after a loss, with few rows in memory only and in time that
// is proportional to the log's length.
func TestALongLog(t *testing.T) {
	const records, perRecord = 160, 16
	s := newScene(t)
	s.c.Limits[0].Units = records * perRecord
	writer := s.open(slidinglog.Config{})
	s.follow(20, writer)
	for n := range records {
		asks := make([]quota.Ask, perRecord)
		for i := range asks {
			asks[i] = s.asks(1)[0]
			asks[i].RequestID = fmt.Sprintf("%08x", (n*perRecord+i)*2654435761%(1<<32)) // in no order
		}
		s.now = s.now.Add(1e6)
		if _, err := writer.Acquire(t.Context(), s.c, asks); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil { // it is not waited for
		t.Fatal(err)
	}
	s.store.Page = 4

	file := &watchedFile{MemFile: ledgertest.NewMemFile()}
	host := s.open(slidinglog.Config{File: file})
	host.SetMaxUnfolded(100)
	s.follow(1, host)
	most := func(of string, rows int) {
		t.Helper()
		if file.most == 0 || file.most > rows || file.unordered > 0 {
			t.Errorf("%s: %d folds write up to %d rows, %d of them not in the order of their keys; want up to %d", of, file.folds, file.most, file.unordered, rows)
		}
	}
	most("reading", 100+2*s.store.Page*perRecord)
	all := len(host.Entries(s.c))
	if all != records*perRecord {
		t.Fatalf("the host has %d entries", all)
	}

	s.store.Flush(s.c.Name)
	file.most, file.marks = 0, 0
	host.SetMaxUnfolded(700)
	s.follow(20, host)
	most("putting back", 2*700)
	if !host.Serves(s.c) || len(host.Entries(s.c)) != all {
		t.Fatalf("the log has not been put back")
	}
	if file.marks > all+all/2 {
		t.Errorf("%d marks are read to put back %d entries", file.marks, all)
	}
}
