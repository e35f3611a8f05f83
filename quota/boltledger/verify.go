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
	l := &Ledger{accounts: make(map[string]*account)}
	var is identity
	if !isNew {
		if is, err = l.verify(config); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(positionPath(config.Path))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot read the ledger's position: %w", err)
	}
	_, err = config.compare(isNew, is, parseIdentity(bytes.NewReader(text)))
	return err
}

// verify reads all of a file, and returns what it says of itself.
func (l *Ledger) verify(config Config) (is identity, err error) {
	var file *os.File
	err = guard(func() (err error) {
		if err := l.openDB(config, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true}, &file); err != nil {
			return err
		}
		is, err = l.identity()
		return errors.Join(err, l.db.Close())
	})
	if fault := (&faultError{}); errors.As(err, &fault) {
		err = errors.Join(damaged(config.Path, fault.Error()), abandon(file))
	}
	return is, err
}
