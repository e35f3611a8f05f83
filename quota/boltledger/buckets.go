package boltledger

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"go.etcd.io/bbolt"

	"quotad/quota"
)

// The file's root has a bucket for each credential, by its name, and this one, which
// no credential can be called.
var headBucket = []byte("\x00quotad")

var (
	versionKey        = []byte("version")     // sealed: a damaged one is not another one
	idKey             = []byte("id")          // drawn when the file was made
	credentialsBucket = []byte("credentials") // their names, each with a bucket of its own
)

// version is that of the file's form. Another one is refused.
const version = "3"

var errVersion = errors.New("it was written by another version of quotad")

// createHead makes a new file a ledger.
func createHead(tx *bbolt.Tx) error {
	head, err := tx.CreateBucket(headBucket)
	if err != nil {
		return err
	}
	_, err = head.CreateBucket(credentialsBucket)
	return errors.Join(err, head.Put(versionKey, seal(versionKey, []byte(version))), head.Put(idKey, []byte(rand.Text())))
}

// credentialsOf returns the credentials that the file has something of.
func credentialsOf(tx *bbolt.Tx) (names []string, err error) {
	head := tx.Bucket(headBucket)
	if head == nil {
		return nil, errors.New("its head is missing, as it is of one that an older version of quotad wrote")
	}
	written, whole := unseal(versionKey, head.Get(versionKey))
	switch {
	case !whole:
		return nil, errors.New("its version cannot be read")
	case string(written.rest) != version:
		return nil, errVersion
	}
	list := head.Bucket(credentialsBucket)
	if list == nil {
		return nil, errors.New("a part of it is missing")
	}
	err = tx.ForEach(func(name []byte, _ *bbolt.Bucket) error {
		if !bytes.Equal(name, headBucket) && list.Get(name) == nil {
			return fmt.Errorf("nothing is said of credential %q", name)
		}
		return nil
	})
	return names, errors.Join(err, list.ForEach(func(name, _ []byte) error {
		names = append(names, string(name))
		return nil
	}))
}

// identity returns the ledger's id and the number of its last transaction.
func (l *Ledger) identity() (is identity, err error) {
	err = l.db.View(func(tx *bbolt.Tx) error {
		is = identity{string(tx.Bucket(headBucket).Get(idKey)), tx.ID()}
		return nil
	})
	return is, err
}

// buckets is what the file has of one credential: its log by entry id, the ids
// by request key, and a summary. All are nil of a credential without an entry.
type buckets struct {
	root, log, keys *bbolt.Bucket
}

var (
	logBucket  = []byte("log")
	keysBucket = []byte("keys")
	summaryKey = []byte("summary")
	closedKey  = []byte("closed") // which limits are closed; absent where none has been
)

func openBuckets(tx *bbolt.Tx, credential string) buckets {
	root := tx.Bucket([]byte(credential))
	if root == nil {
		return buckets{}
	}
	return buckets{root: root, log: root.Bucket(logBucket), keys: root.Bucket(keysBucket)}
}

func createBuckets(tx *bbolt.Tx, credential string) (buckets, error) {
	if b := openBuckets(tx, credential); b.root != nil {
		b.log.FillPercent = appended
		return b, nil
	}
	root, err := tx.CreateBucket([]byte(credential))
	if err != nil {
		return buckets{}, err
	}
	log, err1 := root.CreateBucket(logBucket)
	keys, err2 := root.CreateBucket(keysBucket)
	err3 := tx.Bucket(headBucket).Bucket(credentialsBucket).Put([]byte(credential), []byte{1})
	if err := errors.Join(err1, err2, err3); err != nil {
		return buckets{}, err
	}
	log.FillPercent = appended
	return buckets{root: root, log: log, keys: keys}, nil
}

// appended is how full the pages of a log become: entries are only ever appended,
// full pages waste nothing.
const appended = 1

func dropBuckets(tx *bbolt.Tx, credential string) error {
	if openBuckets(tx, credential).root == nil {
		return nil
	}
	return tx.DeleteBucket([]byte(credential))
}

// A summary is what is kept beside the entries of a credential.
type summary struct {
	entries int   // how many there are
	lost    int64 // see slidinglog.Account
}

func (b buckets) summary() (s summary, err error) {
	if b.root == nil {
		return s, nil
	}
	d, ok := unseal(summaryKey, b.root.Get(summaryKey))
	s.entries, s.lost = int(d.uvarint()), d.varint()
	if !ok || d.failed {
		return s, errors.New("its summary is damaged")
	}
	return s, nil
}

// count takes in how many entries there are more, and up to when some were lost.
func (b buckets) count(entries int, lost int64) error {
	s, err := b.summary()
	if err != nil && b.root.Get(summaryKey) != nil {
		return err
	}
	value := binary.AppendUvarint(nil, uint64(s.entries+entries))
	value = binary.AppendVarint(value, max(s.lost, lost))
	return b.root.Put(summaryKey, seal(summaryKey, value))
}

// putClosed writes which limits are closed.
func (b buckets) putClosed(closed map[string]quota.Closed) error {
	value := binary.AppendUvarint(nil, uint64(len(closed)))
	for _, name := range slices.Sorted(maps.Keys(closed)) {
		c := closed[name]
		value = appendString(value, name)
		value = binary.AppendVarint(value, millis(c.Since))
		value = binary.AppendVarint(value, millis(c.Until))
		value = appendString(appendString(value, c.Says), c.By)
	}
	return b.root.Put(closedKey, seal(closedKey, value))
}

// closed returns which limits are closed, by name.
func (b buckets) closed() (map[string]quota.Closed, error) {
	if b.root == nil || b.root.Get(closedKey) == nil {
		return nil, nil
	}
	d, ok := unseal(closedKey, b.root.Get(closedKey))
	closed := make(map[string]quota.Closed)
	for range d.uvarint() {
		name := d.string()
		closed[name] = quota.Closed{Since: d.time(), Until: d.time(), Says: d.string(), By: d.string()}
		if d.failed {
			break
		}
	}
	if !ok || d.failed {
		return nil, errors.New("what it says of closed limits is damaged")
	}
	return closed, nil
}

// last returns the id of the newest entry, zero of an empty log.
func (b buckets) last() quota.ID {
	if b.log == nil {
		return quota.ID{}
	}
	key, _ := b.log.Cursor().Last()
	if len(key) != idSize {
		return quota.ID{}
	}
	return decodeID(key)
}

// check reads all that the file has of a credential, and returns its newest entry.
func (b buckets) check() (newest quota.ID, err error) {
	if b.root == nil || b.log == nil || b.keys == nil {
		return newest, errors.New("a part of it is missing")
	}
	s, err := b.summary()
	if err != nil {
		return newest, err
	}
	if _, err := b.closed(); err != nil {
		return newest, err
	}
	entries, named := 0, 0
	err = b.log.ForEach(func(key, value []byte) error {
		e, err := b.checkEntry(key, value)
		if entries++; err == nil && e.Key != "" {
			if id, ok := b.granted(e.Key); ok && id == e.ID {
				named++
			} else if !ok || id.Less(e.ID) {
				err = errors.New("an entry is not found by its request id")
			}
		}
		newest = e.ID
		return err
	})
	if err != nil {
		return newest, err
	}
	if entries != s.entries {
		return newest, fmt.Errorf("its log has %s, not %d", quota.Count(entries, "entry", "entries"), s.entries)
	}
	if keys := b.keys.Stats().KeyN; keys != named {
		return newest, fmt.Errorf("%s for %s", quota.Count(keys, "request id", "request ids"), quota.Count(named, "entry", "entries"))
	}
	return newest, nil
}

// checkEntry also looks the entry up, as it is going to be: that reads what leads
// to it.
func (b buckets) checkEntry(key, value []byte) (quota.Entry, error) {
	if len(key) != idSize || b.log.Get(key) == nil {
		return quota.Entry{}, errRecord
	}
	return decode(decodeID(key), value)
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

func (b buckets) put(e *quota.Entry) error {
	if err := b.log.Put(encodeID(e.ID), encode(e)); err != nil {
		return err
	}
	if e.Key == "" {
		return nil
	}
	return b.keys.Put([]byte(e.Key), encodeID(e.ID))
}

// trim deletes at most most entries up to id, and returns the last one deleted and
// how many there were.
func (b buckets) trim(until quota.ID, most int) (trimmed quota.ID, n int, err error) {
	cursor := b.log.Cursor()
	for key, value := cursor.First(); key != nil && n < most; key, value = cursor.First() {
		id := decodeID(key)
		if until.Less(id) {
			break
		}
		if err := b.delete(id, value); err != nil {
			return trimmed, n, err
		}
		trimmed = id
		n++
	}
	return trimmed, n, nil
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

// entries yields the entries behind id, oldest first; newest first when back is set.
// An entry that cannot be read ends the sequence with its error.
func (b buckets) entries(after quota.ID, back bool) iter.Seq2[quota.Entry, error] {
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

// page returns a page of the log.
func (b buckets) page(q quota.LogQuery) (page quota.LogPage, err error) {
	from := q.After
	if first := (quota.ID{Ms: q.Since.UnixMilli()}); !q.Newest && !q.Since.IsZero() && from.Less(first) {
		from = quota.ID{Ms: first.Ms - 1, Seq: math.MaxInt64} // nothing before is read
	}
	for e, err := range b.entries(from, q.Newest) {
		switch {
		case err != nil:
			return page, err
		case e.At.Before(q.Since) && q.Newest:
			return page, nil
		case e.At.Before(q.Since):
			continue
		case len(page.Entries) == q.Most:
			page.Next = page.Entries[q.Most-1].ID
			return page, nil
		}
		e.Key = ""
		page.Entries = append(page.Entries, e)
	}
	return page, nil
}
