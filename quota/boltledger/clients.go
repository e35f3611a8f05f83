package boltledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

// Clients is a clientlimit.Ledger in a file of its own, which one process uses at a time. What is
// committed survives the process, but not a crash of the machine: nothing is synced, and a
// subject whose record is lost has its whole budget again. A damaged file is set aside, and a new
// one is created.
type Clients struct {
	path       string
	clock      func() time.Time
	onSetAside func(setAside string, why error)
	stop       chan struct{} // closed by Close
	swept      sync.WaitGroup

	mu     sync.Mutex // held while the file is used, which takes as long as a batch; guards what follows
	db     *bbolt.DB
	failed time.Time // when a commit failed last
}

var _ clientlimit.Ledger = (*Clients)(nil)

// OpenClients opens the file at path, and creates it where there is none; its directory
// must exist. When a damaged file was set aside, then or later, onSetAside is called with the
// file's new name and the reason; it must not wait.
func OpenClients(path string, onSetAside func(setAside string, why error)) (*Clients, error) {
	l := &Clients{path: path, clock: time.Now, onSetAside: onSetAside, stop: make(chan struct{})}
	if err := l.open(); err != nil {
		return nil, err
	}
	l.swept.Go(l.sweep)
	return l, nil
}

// Close waits for what uses the file, and closes it.
func (l *Clients) Close() error {
	close(l.stop)
	l.swept.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.db.Close(); err != nil {
		return fmt.Errorf("cannot close %q: %w", l.path, err)
	}
	return nil
}

// DecideClients implements clientlimit.Ledger. It decides and writes a batch in one transaction,
// and writes nothing for a batch of denials.
func (l *Clients) DecideClients(_ context.Context, c *clientlimit.Clients, asks []clientlimit.Ask) ([]quota.Decision, error) {
	decisions := make([]quota.Decision, len(asks))
	err := l.update(func(tx *bbolt.Tx) (changed bool, err error) {
		now := l.clock().UnixMilli()
		records := recordsOf(tx, c)
		for i, ask := range asks {
			record, err := records.of(ask, now)
			if err != nil {
				decisions[i] = quota.Decision{Err: err}
				continue
			}
			after, ends, d := c.Decide(record, now, ask.Units)
			if decisions[i] = d; after == nil {
				continue
			}
			if changed = true; records.bucket == nil {
				if records, err = createRecords(tx, c); err != nil {
					return false, err
				}
			}
			if err := records.put(ask, now, after, ends); err != nil {
				return false, err
			}
		}
		return changed, nil
	})
	if err != nil {
		return nil, err
	}
	return decisions, nil
}

// ClientUsage implements clientlimit.Ledger.
func (l *Clients) ClientUsage(_ context.Context, c *clientlimit.Clients, of clientlimit.Ask) (u quota.Usage, err error) {
	err = l.view(func(tx *bbolt.Tx) error {
		now := l.clock().UnixMilli()
		record, _ := recordsOf(tx, c).of(of, now)
		u = c.Usage(record, now)
		return nil
	})
	return u, err
}

// ResetClient implements clientlimit.Ledger.
func (l *Clients) ResetClient(_ context.Context, c *clientlimit.Clients, of clientlimit.Ask) error {
	return l.update(func(tx *bbolt.Tx) (changed bool, err error) {
		records := recordsOf(tx, c)
		if records.get(of.Subject) == nil && records.get(of.Former) == nil {
			return false, nil
		}
		if err := records.seal(of, l.clock().UnixMilli()); err != nil {
			return false, err
		}
		return true, records.bucket.Delete([]byte(of.Subject))
	})
}

// ReadHead implements clientlimit.Ledger.
func (l *Clients) ReadHead(context.Context) (head []byte, clockMs int64, err error) {
	err = l.view(func(tx *bbolt.Tx) error {
		head = bytes.Clone(tx.Bucket(headBucket).Get(sharedKey))
		return nil
	})
	return head, l.clock().UnixMilli(), err
}

// SwapHead implements clientlimit.Ledger.
func (l *Clients) SwapHead(_ context.Context, read []byte, _ int64, next []byte, _ int64) (swapped bool, err error) {
	err = l.update(func(tx *bbolt.Tx) (bool, error) {
		bucket := tx.Bucket(headBucket)
		if swapped = bytes.Equal(bucket.Get(sharedKey), read); !swapped {
			return false, nil
		}
		return true, bucket.Put(sharedKey, next)
	})
	return swapped && err == nil, err
}

// pause is how long nothing is tried after a commit has failed: bbolt reads the whole file to find
// the free pages again.
const pause = time.Second

// update calls f to change the file. It commits if f reports a change.
func (l *Clients) update(f func(*bbolt.Tx) (changed bool, err error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.failed) < pause {
		return fmt.Errorf("cannot write %q: %w: it failed a moment ago", l.path, quota.ErrUnavailable)
	}
	return l.use(func() error {
		tx, err := l.db.Begin(true)
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
	})
}

// view calls f to read the file.
func (l *Clients) view(f func(*bbolt.Tx) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.use(func() error { return l.db.View(f) })
}

// use calls f. If the file turns out to be damaged, it calls f again on a new one.
func (l *Clients) use(f func() error) error {
	err := guard(f)
	if fault := (*faultError)(nil); errors.As(err, &fault) {
		if err = l.setAside(fault); err == nil {
			err = guard(f)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot use %q: %w: %w", l.path, quota.ErrUnavailable, err)
	}
	return nil
}

// records are those of one set of clients with one algorithm, by subject. The bucket is nil if
// there are none.
type records struct{ bucket *bbolt.Bucket }

func recordsOf(tx *bbolt.Tx, c *clientlimit.Clients) records { return records{tx.Bucket(bucketOf(c))} }

func createRecords(tx *bbolt.Tx, c *clientlimit.Clients) (records, error) {
	bucket, err := tx.CreateBucketIfNotExists(bucketOf(c))
	return records{bucket}, err
}

func bucketOf(c *clientlimit.Clients) []byte { return []byte(string(c.Algorithm) + " " + c.Name) }

// endsSize is that of the ms, before each record, at which nothing in it counts any more.
const endsSize = 6

// get returns a record as the file has it, nil for a subject that has none.
func (r records) get(subject clientlimit.Key) []byte {
	if r.bucket == nil {
		return nil
	}
	value := r.bucket.Get([]byte(subject))
	if len(value) < endsSize {
		return nil
	}
	return value[endsSize:]
}

// of returns the record of an ask: that of its subject or, if there is none, that of the key
// that it had before.
func (r records) of(ask clientlimit.Ask, nowMs int64) ([]byte, error) {
	record, sealed := clientlimit.Unseal(r.get(ask.Subject))
	if sealed || ask.UntilMs > 0 && nowMs > ask.UntilMs {
		return nil, clientlimit.ErrMoved
	}
	if record == nil && ask.Former != "" {
		record, _ = clientlimit.Unseal(r.get(ask.Former))
	}
	return record, nil
}

// put writes the record of an ask, and seals that of the key that its subject had before.
func (r records) put(ask clientlimit.Ask, nowMs int64, record []byte, endsMs int64) error {
	if r.get(ask.Subject) == nil {
		if err := r.seal(ask, nowMs); err != nil {
			return err
		}
	}
	return r.write(ask.Subject, record, endsMs)
}

// seal ends the record of the key that a subject had before.
func (r records) seal(ask clientlimit.Ask, nowMs int64) error {
	if ask.Former == "" || nowMs >= ask.SealMs && r.get(ask.Former) == nil {
		return nil
	}
	return r.write(ask.Former, clientlimit.Seal(nil), max(ask.SealMs, nowMs))
}

func (r records) write(subject clientlimit.Key, record []byte, endsMs int64) error {
	value := make([]byte, 0, endsSize+len(record))
	value = binary.BigEndian.AppendUint16(value, uint16(endsMs>>32))
	value = binary.BigEndian.AppendUint32(value, uint32(endsMs))
	return r.bucket.Put([]byte(subject), append(value, record...))
}

// expired reports whether nothing in a value of the file counts any more.
func expired(value []byte, nowMs int64) bool {
	if len(value) < endsSize {
		return true
	}
	return int64(binary.BigEndian.Uint16(value))<<32|int64(binary.BigEndian.Uint32(value[2:])) <= nowMs
}
