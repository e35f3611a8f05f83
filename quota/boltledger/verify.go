package boltledger

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
)

// Verify returns why Open would fail, and changes nothing: it opens the file for reading.
func Verify(config Config) error {
	isNew, err := checkSize(config.Path)
	if err != nil {
		return err
	}
	config.AcceptNew = config.AcceptNew || acceptedByRoot(config.Path)
	var is identity
	var last uint64
	if !isNew {
		if is, last, err = verify(config); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(config.Path + ".position")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot read the ledger's position: %w", err)
	}
	var was position
	was.read(bytes.NewReader(text))
	_, err = config.compare(isNew, is, last, &was)
	return err
}

// verify reads all of a file and its tail, and returns what they say of themselves.
func verify(config Config) (is identity, last uint64, err error) {
	var file *os.File
	l := new(File)
	err = guard(func() error {
		is, err = l.openDB(config, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true}, &file)
		if err != nil {
			return err
		}
		if l.tail, _, err = readTail(config.Path, is); err == nil {
			last = l.tail.at.seq
		} else {
			err = unfit(config.Path, err)
		}
		return errors.Join(err, l.db.Close())
	})
	if fault := (&faultError{}); errors.As(err, &fault) {
		err = errors.Join(damaged(config.Path, fault.Error()), abandon(file))
	}
	return is, last, err
}
