package boltledger

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"quotad/quota"
)

// lockWait is how long Open waits for another process to let go of the file.
const lockWait = 200 * time.Millisecond

// openWhole opens the file and reads all of it once. Where it is damaged, bbolt
// panics, and the kernel faults where the file ends too soon: later that would end
// the daemon, and a log that lacks something is a budget that is too large.
func openWhole(config Config) (db *bbolt.DB, err error) {
	if err := checkFile(config.Path); err != nil {
		return nil, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil { // the file stays locked until the process ends
			db, err = nil, damaged(config.Path, fmt.Sprint(r))
		}
	}()
	db, err = bbolt.Open(config.Path, 0o600, &bbolt.Options{
		Timeout:      lockWait,
		NoSync:       config.Unsynced,
		FreelistType: bbolt.FreelistMapType,
	})
	if err != nil {
		return nil, openError(config.Path, err)
	}
	if err := db.View(checkContent); err != nil {
		return nil, errors.Join(damaged(config.Path, err.Error()), db.Close())
	}
	return db, nil
}

func openError(path string, err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("cannot open ledger %q: another process uses it", path)
	}
	if errors.Is(err, bolterrors.ErrInvalid) || errors.Is(err, bolterrors.ErrChecksum) || errors.Is(err, bolterrors.ErrVersionMismatch) {
		return damaged(path, err.Error())
	}
	return fmt.Errorf("cannot open ledger %q: %w", path, err)
}

// checkFile refuses a file with next to nothing in it: an empty one bbolt would
// take for a new ledger, with a fresh budget for everybody.
func checkFile(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot open ledger: %w", err)
	}
	if info.Size() < smallest {
		return damaged(path, fmt.Sprintf("the file has %d bytes, and none has less than %d", info.Size(), smallest))
	}
	return nil
}

// smallest is the size of a file in which nothing stands: four pages, where pages
// are smallest.
const smallest = 4 * 4096

func damaged(path, how string) error {
	return fmt.Errorf("ledger %q is damaged: %s; restore it from a backup, or move it away to begin with an empty log (every limit then counts from zero)", path, how)
}

// checkContent returns what is wrong with the file.
func checkContent(tx *bbolt.Tx) error {
	info, err := os.Stat(tx.DB().Path())
	if err != nil {
		return err
	}
	if info.Size() < tx.Size() {
		return fmt.Errorf("the file has %d bytes of %d", info.Size(), tx.Size())
	}
	if err := checkPages(tx); err != nil {
		return err
	}
	err = tx.ForEach(func(name []byte, _ *bbolt.Bucket) error {
		if err := openBuckets(tx, string(name)).check(); err != nil {
			return fmt.Errorf("credential %q: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for found := range tx.Check() { // to its end: it waits for whoever listens
		err = errors.Join(err, found)
	}
	return err
}

// checkPages holds that no page reaches into what is not the file's.
func checkPages(tx *bbolt.Tx) error {
	pages := int(tx.Size() / int64(tx.DB().Info().PageSize))
	for id := 0; id < pages; {
		page, err := tx.Page(id)
		if err != nil {
			return err
		}
		next := id + 1
		if page.Type != "free" { // what a free one says is out of date
			next += page.OverflowCount
		}
		if next > pages {
			return fmt.Errorf("page %d of %d goes on to page %d", id, pages, next-1)
		}
		id = next
	}
	return nil
}

// check reads all that the file has of a credential.
func (b buckets) check() error {
	if b.root == nil || b.log == nil || b.keys == nil || b.account() == nil {
		return errors.New("a part of it is missing")
	}
	if err := decodeAccount(b.account(), &quota.Account{}); err != nil {
		return err
	}
	return errors.Join(b.log.ForEach(b.checkEntry), b.keys.ForEach(b.checkKey))
}

// checkEntry also looks the entry up, as it is going to be: that reads what leads
// to it.
func (b buckets) checkEntry(key, value []byte) error {
	if len(key) != idSize || b.log.Get(key) == nil {
		return errRecord
	}
	_, err := decode(decodeID(key), value)
	return err
}

func (b buckets) checkKey(key, value []byte) error {
	if len(value) != idSize || b.keys.Get(key) == nil {
		return errors.New("a request id names no entry")
	}
	return nil
}
