package slidinglog_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// A watchedFile records what its folds write and how many marks are read.
type watchedFile struct {
	*ledgertest.MemFile
	unordered, folds, most, marks, rows, reads int
}

// A host that cannot fold, because the disk is full, has few rows in memory only, whether it reads a long log or
// serves while another host writes. It goes on when there is room.
func TestWhatCannotBeFoldedIsBounded(t *testing.T) {
	s := newScene(t)
	writer := s.open(slidinglog.Config{})
	s.follow(20, writer)
	write := func(n int) {
		for range n {
			s.c.Limits[0].Units++
			s.grant(writer, 1)
		}
	}
	write(1000)
	for name, serves := range map[string]bool{"while it reads": false, "while it serves": true} {
		t.Run(name, func(t *testing.T) {
			file := &watchedFile{MemFile: ledgertest.NewMemFile()}
			file.Full = !serves
			l := s.open(slidinglog.Config{File: file})
			l.SetMaxUnfolded(100)
			s.follow(2, l)
			if file.Full = true; serves {
				if !l.Serves(s.c) || l.Fold() == nil {
					t.Fatal("it does not serve, or has nothing to fold")
				}
			}
			for range 120 {
				write(20) // less than a page for each poll
				s.follow(1, l)
			}
			if n := len(l.Entries(s.c)) - file.rows; l.Serves(s.c) || n > 12*slidinglog.PageSize {
				t.Errorf("it serves: %v, with %d entries in memory only", l.Serves(s.c), n)
			}
			file.Full = false
			s.follow(20, l)
			if u, err := l.Usage(t.Context(), s.c); err != nil || u.Limits[0].Used != s.c.Limits[0].Units-100 {
				t.Errorf("with room again: %+v, %v", u, err)
			}
		})
	}
}

func (f *watchedFile) Fold(changes []slidinglog.TableChange) error {
	if f.Full {
		return f.MemFile.Fold(changes)
	}
	f.folds++
	for _, c := range changes {
		f.most = max(f.most, len(c.Rows))
		f.rows += len(c.Rows)
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

func (t watchedTables) Get(table slidinglog.Table, key []byte) []byte {
	t.f.reads++
	return t.Tables.Get(table, key)
}

func (t watchedTables) Rows(table slidinglog.Table, after []byte, back bool) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		t.f.reads++
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

// A grant or a denial reads the tables only for its request id, or for the entries that leave a window: that
// needs a transaction.
func TestAGrantReadsNoTables(t *testing.T) {
	for name, alone := range map[string]bool{"file": true, "store": false} {
		t.Run(name, func(t *testing.T) {
			s, file := newScene(t), &watchedFile{MemFile: ledgertest.NewMemFile()}
			config := slidinglog.Config{File: file}
			if alone {
				config.Credentials, config.Clock, config.Manual = []*quota.Credential{s.c}, func() time.Time { return s.now }, true
			} else {
				config.Store = s.store
			}
			open := func() *slidinglog.Ledger {
				if !alone {
					l := s.open(config)
					s.follow(20, l)
					return l
				}
				l, err := slidinglog.Open(config)
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			acquire := func(l *slidinglog.Ledger, units quota.Units, key string, reads bool) {
				t.Helper()
				asks := s.asks(units)
				asks[0].RequestID = key
				s.now, file.reads = s.now.Add(time.Millisecond), 0
				if _, err := l.Acquire(t.Context(), s.c, asks); err != nil || (file.reads > 0) != reads {
					t.Errorf("%d reads, %v", file.reads, err)
				}
			}
			l := open()
			acquire(l, 1, "", true) // the views are new
			for range 2 {           // and once more after a fold and a restart
				if err := l.Fold(); err != nil {
					t.Fatal(err)
				}
				acquire(l, 1, "", false)
				acquire(l, 1, "page-1", true)
				acquire(l, 1000, "", false) // denied
				l.Close()
				l = open()
				acquire(l, 1, "", true) // the views are new
			}
			acquire(l, 1, "", false)
			s.now = s.now.Add(time.Hour)
			acquire(l, 1, "", true) // what is older has left the window
		})
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

// A busyStore calls back before each call.
type busyStore struct {
	*ledgertest.SimStore
	before func(first slidinglog.Call)
}

func (s *busyStore) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	s.before(calls[0])
	return s.SimStore.Append(ctx, calls)
}

// A host that puts back a long log for more than half a minute is not missing: nobody grants before it is
// done. A host that stops putting back is missing half a minute after its last record.
func TestAHostThatStillPutsBackIsWaitedFor(t *testing.T) {
	const entries, recordTime, stopsAt = 60, 3, 30 // the time in polls
	for name, stops := range map[string]bool{"to the end": false, "frozen": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			store := &busyStore{s.store, func(slidinglog.Call) {}}
			slow := s.open(slidinglog.Config{Store: store})
			s.follow(20, slow)
			for range entries {
				s.grant(slow, 1)
			}
			s.store.Flush(s.c.Name)
			other := s.open(slidinglog.Config{})
			slow.SetMaxLate(1)
			early, stopped := 0, 0
			store.before = func(slidinglog.Call) {
				s.follow(1, other)
				placed := len(other.Entries(s.c))
				if placed > 0 { // from then on it knows of the other host
					s.follow(recordTime-1, other)
				}
				if stops && placed == stopsAt && stopped == 0 {
					stopped++
					if s.follow(100, other); other.Serves(s.c) {
						t.Errorf("a host is missing %v after its last record", (100+recordTime)*pollTime)
					}
					if s.follow(40, other); !other.Serves(s.c) {
						t.Errorf("a host is not missing %v after its last record", (140+recordTime)*pollTime)
					}
				}
				if placed > 0 && stopped == 0 && other.Serves(s.c) && placed < entries {
					early++
				}
			}
			s.follow(20, slow, other)
			if early > 0 || !slow.Serves(s.c) || len(other.Entries(s.c)) != entries {
				t.Errorf("a host served %d times too early; at the end %d of %d entries are there", early, len(other.Entries(s.c)), entries)
			}
		})
	}
}
