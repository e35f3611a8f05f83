package boltledger

import (
	"bytes"
	"context"
	"time"

	"go.etcd.io/bbolt"

	"quotad/quota"
)

// A sweep reads some records at a time, and deletes those that have expired. If most of them have,
// the next step follows at once. A pass over ten million records takes half an hour, and keeps a
// decision waiting for milliseconds.
const (
	sweepStep = 1000
	sweepRest = 200 * time.Millisecond
	sweepRush = 10 * time.Millisecond
)

// sweep deletes expired records until ctx ends.
func (l *Clients) sweep(ctx context.Context) {
	var at place
	for rest := sweepRest; quota.Sleep(ctx, rest); {
		next, deleted, err := l.sweepSome(at)
		at, rest = next, sweepRest
		if err == nil && deleted > sweepStep/2 {
			rest = sweepRush
		}
	}
}

// A place is where the next step of a sweep starts: at a subject's record. Zero: at the beginning.
type place struct{ bucket, subject []byte }

// sweepSome reads the records from a place on, at most sweepStep of them. It returns where the next
// step starts, and how many it deleted.
func (l *Clients) sweepSome(at place) (next place, deleted int, err error) {
	err = l.use(true, func(tx *bbolt.Tx) (bool, error) {
		next, deleted = place{}, 0
		names := tx.Cursor()
		name, _ := names.Seek(at.bucket)
		if bytes.Equal(name, headBucket) {
			name, _ = names.Next()
		}
		if name == nil {
			return false, nil
		}
		from := at.subject
		if !bytes.Equal(name, at.bucket) {
			from = nil
		}
		bucket, now := tx.Bucket(name), l.clock().UnixMilli()
		subjects := bucket.Cursor()
		subject, value := subjects.Seek(from)
		var ended [][]byte
		for read := 0; subject != nil && read < sweepStep; read++ {
			if expired(value, now) {
				ended = append(ended, subject)
			}
			subject, value = subjects.Next()
		}
		next = place{bytes.Clone(name), bytes.Clone(subject)}
		if subject == nil { // its end: the next bucket has a later name
			next.bucket = append(next.bucket, 0)
		}
		for _, subject := range ended {
			if err := bucket.Delete(subject); err != nil {
				return false, err
			}
		}
		deleted = len(ended)
		return deleted > 0, nil
	})
	return next, deleted, err
}
