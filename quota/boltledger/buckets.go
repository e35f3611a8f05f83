package boltledger

import (
	"encoding/json"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"

	"quotad/quota"
)

// buckets is what the file has of one credential: its log by entry id, the ids
// by request key, and the account. All are nil of a credential without a grant.
type buckets struct {
	root, log, keys *bbolt.Bucket
}

var (
	logBucket  = []byte("log")
	keysBucket = []byte("keys")
	accountKey = []byte("account")
)

func openBuckets(tx *bbolt.Tx, credential string) buckets {
	root := tx.Bucket([]byte(credential))
	if root == nil {
		return buckets{}
	}
	return buckets{root: root, log: root.Bucket(logBucket), keys: root.Bucket(keysBucket)}
}

func createBuckets(tx *bbolt.Tx, credential string) (buckets, error) {
	root, err := tx.CreateBucketIfNotExists([]byte(credential))
	if err != nil {
		return buckets{}, err
	}
	log, err := root.CreateBucketIfNotExists(logBucket)
	if err != nil {
		return buckets{}, err
	}
	// Entries are only ever appended: full pages waste nothing.
	log.FillPercent = 1
	keys, err := root.CreateBucketIfNotExists(keysBucket)
	return buckets{root: root, log: log, keys: keys}, err
}

func (b buckets) account() []byte {
	if b.root == nil {
		return nil
	}
	return b.root.Get(accountKey)
}

func decodeAccount(value []byte, into *quota.Account) error {
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("the account is damaged: %w", err)
	}
	return nil
}

func (b buckets) putAccount(state *quota.Account) error {
	value, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return b.root.Put(accountKey, value)
}

// granted returns the entry that a request key was granted by.
func (b buckets) granted(key string) (quota.ID, bool) {
	if b.keys == nil {
		return quota.ID{}, false
	}
	value := b.keys.Get([]byte(key))
	if len(value) != idSize {
		return quota.ID{}, false
	}
	return decodeID(value), true
}

func (b buckets) entry(id quota.ID) (quota.Entry, bool, error) {
	if b.log == nil {
		return quota.Entry{}, false, nil
	}
	value := b.log.Get(encodeID(id))
	if value == nil {
		return quota.Entry{}, false, nil
	}
	r, err := decode(id, value)
	return r, err == nil, err
}

func (b buckets) put(r quota.Entry) error {
	if err := b.log.Put(encodeID(r.ID), encode(&r)); err != nil {
		return err
	}
	if r.Key == "" {
		return nil
	}
	return b.keys.Put([]byte(r.Key), encodeID(r.ID))
}

// trim deletes at most most entries up to id, and returns the last one deleted.
func (b buckets) trim(until quota.ID, most int) (quota.ID, error) {
	var trimmed quota.ID
	cursor := b.log.Cursor()
	for key, value := cursor.First(); key != nil && most > 0; key, value = cursor.First() {
		id := decodeID(key)
		if until.Less(id) {
			break
		}
		if err := b.delete(id, value); err != nil {
			return trimmed, err
		}
		trimmed = id
		most--
	}
	return trimmed, nil
}

func (b buckets) delete(id quota.ID, value []byte) error {
	r, err := decode(id, value)
	if err != nil {
		return err
	}
	// The key may stand for a later grant, made after this one had expired.
	if named, ok := b.granted(r.Key); ok && named == id {
		if err := b.keys.Delete([]byte(r.Key)); err != nil {
			return err
		}
	}
	return b.log.Delete(encodeID(id))
}

// records yields the entries behind id, oldest first; newest first when back is set.
// An entry that cannot be read ends the sequence with its error.
func (b buckets) records(after quota.ID, back bool) iter.Seq2[quota.Entry, error] {
	return func(yield func(quota.Entry, error) bool) {
		if b.log == nil {
			return
		}
		cursor := b.log.Cursor()
		step := cursor.Next
		if back {
			step = cursor.Prev
		}
		for key, value := seek(cursor, after, back); key != nil; key, value = step() {
			r, err := decode(decodeID(key), value)
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// seek puts the cursor on the first entry behind id in the direction of travel.
func seek(cursor *bbolt.Cursor, after quota.ID, back bool) (key, value []byte) {
	switch {
	case after.IsZero() && back:
		return cursor.Last()
	case after.IsZero():
		return cursor.First()
	}
	key, value = cursor.Seek(encodeID(after))
	switch {
	case back && key == nil:
		return cursor.Last()
	case back:
		return cursor.Prev()
	case key != nil && decodeID(key) == after:
		return cursor.Next()
	}
	return key, value
}

// After implements quota.Debits: the file's entries, then the batch's own.
func (b *batch) After(id quota.ID) iter.Seq[quota.Entry] {
	return func(yield func(quota.Entry) bool) {
		for r, err := range b.buckets.records(id, false) {
			if err != nil {
				b.err = err
				return
			}
			if !yield(r) {
				return
			}
		}
		for _, r := range b.entries {
			if id.Less(r.ID) && !yield(r) {
				return
			}
		}
	}
}
