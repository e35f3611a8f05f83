package boltledger

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"go.etcd.io/bbolt"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// tables are what the file has of one credential: a bucket with a bucket for each table,
// and a summary. All values have a checksum.
type tables struct {
	db         *bbolt.DB
	credential string
	tx         *bbolt.Tx     // nil: it begins when the first row is read
	root       *bbolt.Bucket // nil: the file has nothing of the credential
	table      [slidinglog.TableCount]*bbolt.Bucket
	err        error // of a row that is damaged
}

var _ slidinglog.Tables = (*tables)(nil)

var (
	tableNames = [slidinglog.TableCount][]byte{[]byte("log"), []byte("keys"), []byte("marks")}
	summaryKey = []byte("summary")
)

var errRow = errors.New("an entry of the log is damaged")

// begin begins the transaction.
func (t *tables) begin() {
	if t.tx != nil || t.err != nil {
		return
	}
	if t.tx, t.err = t.db.Begin(false); t.err == nil {
		t.open()
	}
}

func (t *tables) end() {
	if t.tx != nil {
		t.tx.Rollback()
	}
}

func (t *tables) open() {
	if t.root = t.tx.Bucket([]byte(t.credential)); t.root != nil {
		for i, name := range tableNames {
			t.table[i] = t.root.Bucket(name)
		}
	}
}

// openTables returns the tables in a transaction.
func openTables(tx *bbolt.Tx, credential string) *tables {
	t := &tables{tx: tx, credential: credential}
	t.open()
	return t
}

// create makes the tables of a credential that the file has nothing of.
func (t *tables) create() (err error) {
	if t.root, err = t.tx.CreateBucket([]byte(t.credential)); err != nil {
		return err
	}
	for i, name := range tableNames {
		if t.table[i], err = t.root.CreateBucket(name); err != nil {
			return err
		}
	}
	return t.tx.Bucket(headBucket).Bucket(credentialsBucket).Put([]byte(t.credential), []byte{1})
}

// A summary is kept next to the tables: how many rows each has, so that a lost row is noticed, and
// the facts.
type summary struct {
	rows  [slidinglog.TableCount]int
	facts []byte // nil: none were written
}

func (t *tables) summary() (s summary, err error) {
	if t.root == nil {
		return s, nil
	}
	rest, ok := checked(summaryKey, t.root.Get(summaryKey))
	for i := range s.rows {
		rows, n := binary.Uvarint(rest)
		if !ok || n <= 0 {
			return summary{}, errors.New("its summary is damaged")
		}
		s.rows[i], rest = int(rows), rest[n:]
	}
	if len(rest) > 0 {
		s.facts = rest
	}
	return s, nil
}

func (t *tables) putSummary(s summary) error {
	var value []byte
	for _, rows := range s.rows {
		value = binary.AppendUvarint(value, uint64(rows))
	}
	return t.root.Put(summaryKey, withChecksum(summaryKey, append(value, s.facts...)))
}

// checked returns the value of a row, nil if there is none, or if it is damaged.
func (t *tables) checked(key, stored []byte) []byte {
	if stored == nil {
		return nil
	}
	value, ok := checked(key, stored)
	if !ok {
		t.err = errRow
	}
	return value
}

// Get implements slidinglog.Tables.
func (t *tables) Get(table slidinglog.Table, key []byte) []byte {
	t.begin()
	if t.root == nil {
		return nil
	}
	return t.checked(key, t.table[table].Get(key))
}

// Rows implements slidinglog.Tables.
func (t *tables) Rows(table slidinglog.Table, after []byte, back bool) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		t.begin()
		if t.root == nil {
			return
		}
		cursor := t.table[table].Cursor()
		step := cursor.Next
		if back {
			step = cursor.Prev
		}
		for key, stored := seek(cursor, after, back); key != nil; key, stored = step() {
			if value := t.checked(key, stored); value != nil && !yield(key, value) {
				return
			}
		}
	}
}

// Facts implements slidinglog.Tables.
func (t *tables) Facts() []byte {
	t.begin()
	s, err := t.summary()
	t.err = cmp.Or(t.err, err)
	return s.facts
}

// seek moves the cursor to the first row after a key, or before it if back is set.
func seek(cursor *bbolt.Cursor, after []byte, back bool) (key, stored []byte) {
	switch {
	case len(after) == 0 && back:
		return cursor.Last()
	case len(after) == 0:
		return cursor.First()
	}
	key, stored = cursor.Seek(after)
	switch {
	case back && key == nil:
		return cursor.Last()
	case back:
		return cursor.Prev()
	case bytes.Equal(key, after):
		return cursor.Next()
	}
	return key, stored
}

// check reads all that the file has of a credential, each row also by its key: that reads
// what leads to it.
func (t *tables) check() error {
	if t.root == nil || slices.Contains(t.table[:], nil) {
		return errors.New("a part of it is missing")
	}
	s, err := t.summary()
	if err != nil {
		return err
	}
	for i, table := range t.table {
		rows := 0
		err := table.ForEach(func(key, _ []byte) error {
			rows++
			if t.Get(slidinglog.Table(i), key) == nil {
				return errRow
			}
			return nil
		})
		if err != nil {
			return err
		}
		if rows != s.rows[i] {
			return fmt.Errorf("its %s has %s, not %d", tableNames[i], quota.Count(rows, "entry", "entries"), s.rows[i])
		}
	}
	return nil
}

// full is how full the pages of entries become: nearly all are appended, and full pages
// waste nothing.
const full = 1

// change carries out a TableChange.
func change(tx *bbolt.Tx, c *slidinglog.TableChange) error {
	t := openTables(tx, c.Credential)
	if c.Empty && t.root != nil {
		if err := tx.DeleteBucket([]byte(c.Credential)); err != nil {
			return err
		}
		t.root = nil
	}
	s, err := t.summary()
	if err == nil && t.root == nil {
		err = t.create()
	}
	if err != nil {
		return err
	}
	t.table[slidinglog.EntryTable].FillPercent = full
	for _, row := range c.Rows {
		if err := t.set(&s, row); err != nil {
			return err
		}
	}
	s.facts = c.Facts
	return t.putSummary(s)
}

// set writes or deletes a row, and counts it.
func (t *tables) set(s *summary, row slidinglog.Row) error {
	table := t.table[row.Table]
	if table.Get(row.Key) != nil {
		s.rows[row.Table]--
	}
	if row.Value == nil {
		return table.Delete(row.Key)
	}
	s.rows[row.Table]++
	return table.Put(row.Key, withChecksum(row.Key, row.Value))
}

// readError says that the file could not be read.
func readError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot read ledger: %w: %w", quota.ErrUnavailable, err)
}
