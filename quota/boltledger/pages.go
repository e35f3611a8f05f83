package boltledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
)

// How bbolt lays out a page (version 2 of its format): a header, then an element of the same
// size for each row, which says where the row's key and value are.
const (
	headerSize  = 16
	elementSize = 16
	bucketSize  = 16 // of the header of a page that is inside a value

	branchPage, leafPage, freelistPage = 0x01, 0x02, 0x10
	bucketRow                          = 0x01
	countFollows                       = 0xffff // the freelist's own count follows the header
)

// checkPages checks that no page points outside of itself: bbolt follows what a page says, wherever
// in memory that leads.
func checkPages(tx *bbolt.Tx) error {
	file, err := os.Open(tx.DB().Path())
	if err != nil {
		return err
	}
	defer file.Close()
	size := tx.DB().Info().PageSize
	pages := int(tx.Size() / int64(size))
	for id := 0; id < pages; {
		page, err := tx.Page(id)
		if err != nil {
			return err
		}
		next := id + 1
		if page.Type != "free" { // what a free one says is out of date
			next += page.OverflowCount
			if next > pages {
				return fmt.Errorf("page %d of %d continues to page %d", id, pages, next-1)
			}
			content := make([]byte, (next-id)*size)
			if _, err := file.ReadAt(content, int64(id)*int64(size)); err != nil {
				return err
			}
			if err := checkPage(content); err != nil {
				return fmt.Errorf("page %d: %w", id, err)
			}
		}
		id = next
	}
	return nil
}

var errBeyond = errors.New("its list of rows points outside it")

// checkPage checks that a page points to nothing outside of itself.
func checkPage(page []byte) error {
	if len(page) < headerSize {
		return errBeyond
	}
	kind, rows := binary.NativeEndian.Uint16(page[8:]), int(binary.NativeEndian.Uint16(page[10:]))
	rest := page[headerSize:]
	switch kind {
	case freelistPage:
		ids := uint64(rows)
		if rows == countFollows {
			ids = 1 + binary.NativeEndian.Uint64(rest)
		}
		if ids > uint64(len(rest))/8 {
			return errBeyond
		}
		return nil
	case branchPage, leafPage:
	default:
		return nil // bbolt has checked what is no table
	}
	if rows*elementSize > len(rest) {
		return errBeyond
	}
	for ; rows > 0; rows, rest = rows-1, rest[elementSize:] {
		var field [4]uint64
		for i := range field {
			field[i] = uint64(binary.NativeEndian.Uint32(rest[4*i:]))
		}
		if kind == branchPage {
			if field[0]+field[1] > uint64(len(rest)) { // where it is, the key's size, and the page's id
				return errBeyond
			}
			continue
		}
		flags, at, key, value := field[0], field[1], field[2], field[3]
		if at+key+value > uint64(len(rest)) {
			return errBeyond
		}
		if flags&bucketRow == 0 {
			continue
		}
		if err := checkBucket(rest[at+key : at+key+value]); err != nil {
			return err
		}
	}
	return nil
}

// checkBucket checks the page in the value of a small bucket; a larger one has pages of its own.
func checkBucket(value []byte) error {
	if len(value) < bucketSize {
		return errBeyond
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return nil
	}
	return checkPage(value[bucketSize:])
}
