package boltledger

import (
	"bytes"
	"time"

	"go.etcd.io/bbolt"
)

// A sweep reads some records at a time, and deletes those that have expired. If most of them have,
// the next step follows at once. A pass over ten million records takes half an hour, and keeps a
// decision waiting for milliseconds.
const (
	sweepStep = 1000
	sweepRest = 200 * time.Millisecond
	sweepRush = 10 * time.Millisecond
)

// sweep deletes expired records until the ledger is closed.
func (l *Clients) sweep() {
	timer := time.NewTimer(sweepRest)
	defer timer.Stop()
	var at place
	for {
		select {
		case <-l.stop:
			return
		case <-timer.C:
		}
		rest := sweepRest
		next, deleted, err := l.sweepSome(at)
		if at = next; err == nil && deleted > sweepStep/2 {
			rest = sweepRush
		}
		timer.Reset(rest)
	}
}

// A place is where the next step of a sweep starts: after a subject's record. Zero: at the beginning.
type place struct{ bucket, subject []byte }

// sweepSome reads the records after a place, at most sweepStep of them. It returns where the next
// step starts, and how many it deleted.
func (l *Clients) sweepSome(at place) (next place, deleted int, err error) {
	err = l.use(true, func(tx *bbolt.Tx) (bool, error) {
		name := nextBucket(tx, at.bucket)
		if next, deleted = (place{}), 0; name == nil {
			return false, nil
		}
		if !bytes.Equal(name, at.bucket) {
			at.subject = nil
		}
		bucket := tx.Bucket(name)
		expired, last := expiredRecords(bucket, at.subject, l.clock().UnixMilli())
		next = place{bytes.Clone(name), last}
		if last == nil { // its end: the next bucket has a later name
			next.bucket = append(next.bucket, 0)
		}
		for _, subject := range expired {
			if err := bucket.Delete(subject); err != nil {
				return false, err
			}
		}
		deleted = len(expired)
		return deleted > 0, nil
	})
	return next, deleted, err
}

// nextBucket returns the first name of a bucket of records that is not before from.
func nextBucket(tx *bbolt.Tx, from []byte) []byte {
	names := tx.Cursor()
	name, _ := names.Seek(from)
	if bytes.Equal(name, headBucket) {
		name, _ = names.Next()
	}
	return name
}

// expiredRecords returns which of the next records after a subject have expired, and the last one
// that it read, nil if the bucket has no more.
func expiredRecords(bucket *bbolt.Bucket, after []byte, nowMs int64) (subjects [][]byte, last []byte) {
	cursor := bucket.Cursor()
	subject, value := cursor.Seek(after)
	if subject != nil && bytes.Equal(subject, after) {
		subject, value = cursor.Next()
	}
	for range sweepStep {
		if subject == nil {
			return subjects, nil
		}
		last = bytes.Clone(subject)
		if expired(value, nowMs) {
			subjects = append(subjects, last)
		}
		subject, value = cursor.Next()
	}
	return subjects, last
}
