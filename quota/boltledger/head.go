package boltledger

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"quotad/quota/slidinglog"
)

// The file's root has a bucket for each credential, by its name, and this one, which
// no credential can be called.
var headBucket = []byte("\x00quotad")

// All values of the head have a checksum, so that a damaged version is not taken for another one.
var (
	versionKey        = []byte("version")
	idKey             = []byte("id")          // drawn when the file was made
	callerKey         = []byte("head")        // what SetHead wrote; absent at first
	foldedKey         = []byte("folded")      // the mark up to which the tables have the tail; absent at first
	credentialsBucket = []byte("credentials") // their names, each with a bucket of its own
)

// version is that of the form of the file and its tail. Another one is refused.
const version = "5"

// createHead makes a new file a ledger.
func createHead(tx *bbolt.Tx) error {
	head, err := tx.CreateBucket(headBucket)
	if err != nil {
		return err
	}
	_, err = head.CreateBucket(credentialsBucket)
	return errors.Join(err, putHead(tx, versionKey, []byte(version)), putHead(tx, idKey, []byte(rand.Text())))
}

func putHead(tx *bbolt.Tx, key, value []byte) error {
	return tx.Bucket(headBucket).Put(key, withChecksum(key, value))
}

// getHead returns a value of the head, nil if there is none.
func getHead(tx *bbolt.Tx, key []byte) ([]byte, error) {
	stored := tx.Bucket(headBucket).Get(key)
	if stored == nil {
		return nil, nil
	}
	value, ok := checked(key, stored)
	if !ok {
		return nil, fmt.Errorf("its %s cannot be read", key)
	}
	return value, nil
}

// checkHead checks that the file is a ledger of this version.
func checkHead(tx *bbolt.Tx) error {
	head := tx.Bucket(headBucket)
	if head == nil {
		return errors.New("its head is missing, as it is of one that an older version of quotad wrote")
	}
	written, err := getHead(tx, versionKey)
	switch {
	case err != nil:
		return err
	case written == nil:
		return errors.New("its version is missing") // every version has one
	case string(written) != version:
		return slidinglog.ErrFileVersion
	case head.Bucket(credentialsBucket) == nil || head.Get(idKey) == nil:
		return errors.New("a part of it is missing")
	}
	_, err = getHead(tx, callerKey)
	return err
}

// credentialsOf returns the credentials that the file has something of.
func credentialsOf(tx *bbolt.Tx) (names []string, err error) {
	list := tx.Bucket(headBucket).Bucket(credentialsBucket)
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

// An identity is which ledger a file is, and how far it went.
type identity struct {
	id          string
	transaction int  // the last one
	folded      mark // up to which the tables have the tail
}

func identityOf(tx *bbolt.Tx) (i identity, err error) {
	id, err1 := getHead(tx, idKey)
	folded, err2 := getHead(tx, foldedKey)
	i = identity{string(id), tx.ID(), beginning(string(id))}
	if len(folded) == markSize {
		i.folded = mark{binary.BigEndian.Uint64(folded), binary.BigEndian.Uint32(folded[8:])}
	}
	return i, errors.Join(err1, err2)
}

const markSize = 12

func putFolded(tx *bbolt.Tx, m mark) error {
	value := binary.BigEndian.AppendUint64(make([]byte, 0, markSize), m.seq)
	return putHead(tx, foldedKey, binary.BigEndian.AppendUint32(value, m.sum))
}
