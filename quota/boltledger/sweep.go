package boltledger

import (
	"bytes"
	"time"

	"go.etcd.io/bbolt"
)

// A sweep looks at some records at a time, and takes out those that have gone: in turn, as
// long as most of them have not, and at once where they have. A pass over ten million
// records takes half an hour, and keeps a decision waiting for milliseconds.
const (
	sweepStep = 1000
	sweepRest = 200 * time.Millisecond
	sweepRush = 10 * time.Millisecond
)

// sweep takes out what has gone until the ledger is closed.
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
		next, taken, err := l.sweepSome(at)
		if at = next; err == nil && taken > sweepStep/2 {
			rest = sweepRush
		}
		timer.Reset(rest)
	}
}

// A place is where a sweep goes on: behind a subject's record. Zero: at the beginning.
type place struct{ bucket, subject []byte }

// sweepSome looks at the records from a place on, at most sweepStep of them, and returns
// where to go on and how many it took out.
func (l *Clients) sweepSome(at place) (next place, taken int, err error) {
	err = l.update(func(tx *bbolt.Tx) (bool, error) {
		name := nextBucket(tx, at.bucket)
		if next, taken = (place{}), 0; name == nil {
			return false, nil
		}
		if !bytes.Equal(name, at.bucket) {
			at.subject = nil
		}
		bucket := tx.Bucket(name)
		ended, last := recordsGone(bucket, at.subject, l.clock().UnixMilli())
		next = place{bytes.Clone(name), last}
		if last == nil { // its end: the next bucket begins behind its name
			next.bucket = append(next.bucket, 0)
		}
		for _, subject := range ended {
			if err := bucket.Delete(subject); err != nil {
				return false, err
			}
		}
		taken = len(ended)
		return taken > 0, nil
	})
	return next, taken, err
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

// recordsGone returns which of the next records behind a subject have gone, and the last
// one that it looked at, nil where the bucket has no more.
func recordsGone(bucket *bbolt.Bucket, behind []byte, nowMs int64) (ended [][]byte, last []byte) {
	cursor := bucket.Cursor()
	subject, value := cursor.Seek(behind)
	if subject != nil && bytes.Equal(subject, behind) {
		subject, value = cursor.Next()
	}
	for range sweepStep {
		if subject == nil {
			return ended, nil
		}
		last = bytes.Clone(subject)
		if gone(value, nowMs) {
			ended = append(ended, last)
		}
		subject, value = cursor.Next()
	}
	return ended, last
}
