package boltledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"go.etcd.io/bbolt"
)

// The head of the file has its version, and what package clientlimit keeps there.
var sharedKey = []byte("shared")

const clientsVersion = "4"

// open opens the file. One that is damaged, or of another version, is set aside.
func (l *Clients) open() error {
	err := l.openDB()
	if fault := (*faultError)(nil); errors.As(err, &fault) {
		return l.setAside(fault)
	}
	return err
}

// setAside moves a damaged file away and begins another one. What bbolt has open of it is
// left to the end of the process: it may wait for ever for what a fault left locked.
func (l *Clients) setAside(why error) error {
	aside := l.path + ".damaged"
	if err := os.Rename(l.path, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot set a damaged file aside: %w", err)
	}
	err := l.openDB()
	if err == nil && l.onSetAside != nil {
		l.onSetAside(aside, why)
	}
	return err
}

func (l *Clients) openDB() error {
	isNew, err := checkClients(l.path)
	if err != nil {
		return err
	}
	return guard(func() error {
		// The list of free pages grows with what was swept, and would be written by each commit.
		db, err := openBolt(l.path, strconv.Quote(l.path), &bbolt.Options{NoSync: true, NoGrowSync: true, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
		if err != nil {
			return err
		}
		if isNew { // or nothing is written: the disk may be full
			if err := db.Update(createClientsHead); err != nil {
				return errors.Join(err, db.Close())
			}
		}
		l.db = db
		return nil
	})
}

// checkClients reads a file to its end before it is opened for writing: bbolt does so
// itself then, in a goroutine of its own, where a damaged page ends the process.
func checkClients(path string) (isNew bool, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0:
		return true, nil
	case err != nil:
		return false, fmt.Errorf("cannot open: %w", err)
	case info.Size() < smallest:
		return false, &faultError{fmt.Errorf("the file has %d bytes, and none has less than %d", info.Size(), smallest)}
	}
	return false, guard(func() error {
		db, err := openBolt(path, strconv.Quote(path), &bbolt.Options{ReadOnly: true})
		if err != nil {
			return err
		}
		return errors.Join(db.View(func(tx *bbolt.Tx) error { return checkRecords(tx, info.Size()) }), db.Close())
	})
}

func checkRecords(tx *bbolt.Tx, size int64) error {
	if size < tx.Size() {
		return &faultError{fmt.Errorf("the file has %d bytes of %d", size, tx.Size())}
	}
	head := tx.Bucket(headBucket)
	if head == nil {
		return &faultError{errors.New("its head is missing")}
	}
	if version := head.Get(versionKey); string(version) != clientsVersion {
		return &faultError{fmt.Errorf("it is of version %q", version)}
	}
	return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
		return b.ForEach(func(_, _ []byte) error { return nil })
	})
}

// createClientsHead makes a new file one of client limits.
func createClientsHead(tx *bbolt.Tx) error {
	head, err := tx.CreateBucket(headBucket)
	if err != nil {
		return err
	}
	return head.Put(versionKey, []byte(clientsVersion))
}
