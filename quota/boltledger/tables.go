package boltledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// tables are what the file has of one credential: a bucket with a bucket for each table,
// and a summary. The root is nil if the file has nothing of it. All values are sealed.
type tables struct {
	root  *bbolt.Bucket
	table [tableCount]*bbolt.Bucket
}

const (
	entries    = iota // by id
	named             // ids by request key
	marked            // ids, with nothing behind them
	tableCount        // how many tables there are
)

var (
	tableNames = [tableCount][]byte{[]byte("log"), []byte("keys"), []byte("marks")}
	summaryKey = []byte("summary")
)

var errRow = errors.New("an entry of the log is damaged")

var _ slidinglog.Tables = tables{}

func openTables(tx *bbolt.Tx, credential string) (t tables) {
	if t.root = tx.Bucket([]byte(credential)); t.root != nil {
		for i, name := range tableNames {
			t.table[i] = t.root.Bucket(name)
		}
	}
	return t
}

func createTables(tx *bbolt.Tx, credential string) (t tables, err error) {
	if t.root, err = tx.CreateBucket([]byte(credential)); err != nil {
		return t, err
	}
	for i, name := range tableNames {
		if t.table[i], err = t.root.CreateBucket(name); err != nil {
			return t, err
		}
	}
	err = tx.Bucket(headBucket).Bucket(credentialsBucket).Put([]byte(credential), []byte{1})
	return t, errors.Join(err, t.putSummary(summary{}))
}

// A summary is kept next to the tables: how many rows each has, so that a lost row is noticed, and
// the facts.
type summary struct {
	rows  [tableCount]int
	facts []byte // nil: none were written
}

func (t tables) summary() (s summary, err error) {
	if t.root == nil {
		return s, nil
	}
	rest, ok := unseal(summaryKey, t.root.Get(summaryKey))
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

func (t tables) putSummary(s summary) error {
	var value []byte
	for _, rows := range s.rows {
		value = binary.AppendUvarint(value, uint64(rows))
	}
	return t.root.Put(summaryKey, seal(summaryKey, append(value, s.facts...)))
}

// get returns a row of a table, nil if there is none.
func (t tables) get(table int, key []byte) ([]byte, error) {
	if t.root == nil {
		return nil, nil
	}
	sealed := t.table[table].Get(key)
	if sealed == nil {
		return nil, nil
	}
	value, ok := unseal(key, sealed)
	if !ok || table != named && len(key) != idSize || table == named && len(value) != idSize {
		return nil, errRow
	}
	return value, nil
}

// Entry implements slidinglog.Tables.
func (t tables) Entry(id quota.ID) ([]byte, error) {
	value, err := t.get(entries, encodeID(id))
	return value, readError(err)
}

// Entries implements slidinglog.Tables.
func (t tables) Entries(after quota.ID, back bool) iter.Seq2[slidinglog.Item, error] {
	return func(yield func(slidinglog.Item, error) bool) {
		for key := range t.keys(entries, after, back) {
			value, err := t.get(entries, key)
			if err != nil {
				yield(slidinglog.Item{}, readError(err))
				return
			}
			if !yield(slidinglog.Item{ID: decodeID(key), Value: value}, nil) {
				return
			}
		}
	}
}

// Named implements slidinglog.Tables.
func (t tables) Named(key string) (quota.ID, bool) {
	value, err := t.get(named, []byte(key))
	if value == nil || err != nil {
		return quota.ID{}, false
	}
	return decodeID(value), true
}

// Marked implements slidinglog.Tables.
func (t tables) Marked(after quota.ID) iter.Seq[quota.ID] {
	return func(yield func(quota.ID) bool) {
		for key := range t.keys(marked, after, false) {
			if !yield(decodeID(key)) {
				return
			}
		}
	}
}

// Facts implements slidinglog.Tables.
func (t tables) Facts() ([]byte, error) {
	s, err := t.summary()
	return s.facts, readError(err)
}

// keys yields the keys of a table after an id, or before it if back is set. A key that is no id
// ends them.
func (t tables) keys(table int, after quota.ID, back bool) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if t.root == nil {
			return
		}
		cursor := t.table[table].Cursor()
		step := cursor.Next
		if back {
			step = cursor.Prev
		}
		for key := seek(cursor, after, back); len(key) == idSize && yield(key); key, _ = step() {
		}
	}
}

// seek moves the cursor to the first key after an id, or before it if back is set.
func seek(cursor *bbolt.Cursor, after quota.ID, back bool) (key []byte) {
	switch {
	case after.IsZero() && back:
		key, _ = cursor.Last()
		return key
	case after.IsZero():
		key, _ = cursor.First()
		return key
	}
	key, _ = cursor.Seek(encodeID(after))
	switch {
	case back && key == nil:
		key, _ = cursor.Last()
	case back:
		key, _ = cursor.Prev()
	case len(key) == idSize && decodeID(key) == after:
		key, _ = cursor.Next()
	}
	return key
}

// check reads all that the file has of a credential, each row also by its key: that reads
// what leads to it.
func (t tables) check() error {
	if t.root == nil || t.table[entries] == nil || t.table[named] == nil || t.table[marked] == nil {
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
			value, err := t.get(i, key)
			if err == nil && value == nil {
				err = errRow
			}
			return err
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

// change carries out a TableChange.
func change(tx *bbolt.Tx, c *slidinglog.TableChange) (err error) {
	t := openTables(tx, c.Credential)
	if c.Empty && t.root != nil {
		if err := tx.DeleteBucket([]byte(c.Credential)); err != nil {
			return err
		}
		t = tables{}
	}
	if t.root == nil {
		if t, err = createTables(tx, c.Credential); err != nil {
			return err
		}
	}
	return t.change(c)
}

// full is how full the pages of entries become: nearly all are appended, and full pages
// waste nothing.
const full = 1

func (t tables) change(c *slidinglog.TableChange) error {
	s, err := t.summary()
	if err != nil {
		return err
	}
	t.table[entries].FillPercent = full
	set := func(table int, key, value []byte) { // nil deletes; the first error stays
		if err == nil {
			err = t.set(&s, table, key, value)
		}
	}
	for _, id := range c.Delete {
		set(entries, encodeID(id), nil)
	}
	for _, item := range c.Put {
		set(entries, encodeID(item.ID), seal(encodeID(item.ID), item.Value))
	}
	for key, id := range c.Name {
		if id.IsZero() {
			set(named, []byte(key), nil)
		} else {
			set(named, []byte(key), seal([]byte(key), encodeID(id)))
		}
	}
	for id, on := range c.Mark {
		if on {
			set(marked, encodeID(id), seal(encodeID(id), nil))
		} else {
			set(marked, encodeID(id), nil)
		}
	}
	s.facts = c.Facts
	return errors.Join(err, t.putSummary(s))
}

// set writes or deletes a row, and counts it.
func (t tables) set(s *summary, table int, key, sealed []byte) error {
	if t.table[table].Get(key) != nil {
		s.rows[table]--
	}
	if sealed == nil {
		return t.table[table].Delete(key)
	}
	s.rows[table]++
	return t.table[table].Put(key, sealed)
}

// readError says that the file could not be read.
func readError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot read ledger: %w: %w", quota.ErrUnavailable, err)
}
