package boltledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

// Clients is a clientlimit.Store in a file of its own, which one process uses at a time. What is
// committed survives the process, but not a crash of the machine: nothing is synced, and a
// subject whose record is lost has its whole budget again. A damaged file is set aside, and a new
// one is created.
type Clients struct {
	path       string
	clock      func() time.Time
	onSetAside func(setAside string, why error)
	stop       func() // ends the sweep
	swept      sync.WaitGroup

	mu     sync.Mutex // held while the file is used, which takes as long as a batch; guards what follows
	db     *bbolt.DB
	failed time.Time // when a commit failed last
}

var _ clientlimit.Store = (*Clients)(nil)

// OpenClients opens the file at path, and creates it where there is none; its directory
// must exist. When a damaged file was set aside, then or later, onSetAside is called with the
// file's new name and the reason; it must not wait.
func OpenClients(path string, onSetAside func(setAside string, why error)) (*Clients, error) {
	l := &Clients{path: path, clock: time.Now, onSetAside: onSetAside}
	if err := l.open(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.swept.Go(func() { l.sweep(ctx) })
	return l, nil
}

// Close waits for what uses the file, and closes it.
func (l *Clients) Close() error {
	l.stop()
	l.swept.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.db.Close(); err != nil {
		return fmt.Errorf("cannot close %q: %w", l.path, err)
	}
	return nil
}

// Swap implements clientlimit.Store. All swaps are one transaction: all are written, or none.
func (l *Clients) Swap(_ context.Context, all []*clientlimit.Swap) {
	writes := slices.ContainsFunc(all, func(one *clientlimit.Swap) bool { return one.Writes })
	err := l.use(writes, func(tx *bbolt.Tx) (changed bool, err error) {
		now := l.clock().UnixMilli()
		var bucket *bbolt.Bucket // of the last swap: to find it again would cost as much as a record
		for i, one := range all {
			if i == 0 || one.Group != all[i-1].Group {
				bucket = tx.Bucket(bucketOf(one.Place))
			}
			if bucket, err = swap(tx, bucket, one, now); err != nil {
				return false, err
			}
			changed = changed || one.Swapped
		}
		return changed, nil
	})
	for _, one := range all {
		one.Err = err
	}
}

// pause is how long nothing is written after a commit has failed: bbolt reads the whole file to find
// the free pages again.
const pause = time.Second

// use calls f in a transaction, and commits it if f reports a change. If the file turns out to be
// damaged, it calls f again on a new one.
func (l *Clients) use(writes bool, f func(*bbolt.Tx) (changed bool, err error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if writes && time.Since(l.failed) < pause {
		return fmt.Errorf("cannot write %q: %w: it failed a moment ago", l.path, quota.ErrUnavailable)
	}
	transaction := func() error {
		tx, err := l.db.Begin(writes)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		changed, err := f(tx)
		if err != nil || !changed {
			return err
		}
		if err = tx.Commit(); err != nil {
			l.failed = time.Now()
		}
		return err
	}
	err := guard(transaction)
	if fault := (*faultError)(nil); errors.As(err, &fault) {
		if err = l.setAside(fault); err == nil {
			err = guard(transaction)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot use %q: %w: %w", l.path, quota.ErrUnavailable, err)
	}
	return nil
}

// bucketOf returns the name of the bucket of a place: each group has one.
func bucketOf(at clientlimit.Place) []byte {
	if at == (clientlimit.Place{}) {
		return headBucket
	}
	return []byte(at.Group)
}

// swap carries out one swap in its bucket, and returns that: it creates one that is missing.
func swap(tx *bbolt.Tx, bucket *bbolt.Bucket, one *clientlimit.Swap, nowMs int64) (_ *bbolt.Bucket, err error) {
	key, prefix := []byte(one.Subject), endsSize
	if one.Place == (clientlimit.Place{}) { // the head has no end
		key, prefix = sharedKey, 0
	}
	var found []byte
	if bucket != nil {
		if value := bucket.Get(key); len(value) > prefix {
			found = value[prefix:]
		}
	}
	inTime := one.ReadMs <= nowMs && (one.NotAfterMs == 0 || nowMs <= one.NotAfterMs)
	one.NowMs = nowMs
	if one.Swapped = one.Writes && bytes.Equal(found, one.Read) && inTime; !one.Swapped {
		one.Found = bytes.Clone(found)
		return bucket, nil
	}
	if bucket == nil {
		if bucket, err = tx.CreateBucket(bucketOf(one.Place)); err != nil {
			return nil, err
		}
	}
	value := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(one.Next)), uint64(one.EndsMs))
	return bucket, bucket.Put(key, append(value, one.Next...)[8-prefix:])
}

// endsSize is that of the ms, before each record, at which nothing in it counts any more.
const endsSize = 6

// expired reports whether nothing in a value of the file counts any more.
func expired(value []byte, nowMs int64) bool {
	if len(value) < endsSize {
		return true
	}
	return int64(binary.BigEndian.Uint16(value))<<32|int64(binary.BigEndian.Uint32(value[2:])) <= nowMs
}
