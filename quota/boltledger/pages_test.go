package boltledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// Whatever a page says of where its rows are, one that leads out of the page is found, and none
// that a ledger has is taken for one.
func TestPageThatLeadsOutOfItself(t *testing.T) {
	content := wholeFile(t, 200)
	leaves := 0
	for at := 2 * pageSize; at < len(content); at += pageSize {
		page := content[at : at+pageSize]
		if binary.NativeEndian.Uint16(page[8:]) != leafPage || binary.NativeEndian.Uint16(page[10:]) == 0 {
			continue
		}
		leaves++
		if err := checkPage(page); err != nil {
			t.Errorf("page %d: %v", at/pageSize, err)
		}
		for _, field := range []int{4, 8, 12} { // where the row is, the sizes of its key and its value
			wrong := bytes.Clone(page)
			binary.NativeEndian.PutUint32(wrong[headerSize+field:], 1<<24)
			if err := checkPage(wrong); !errors.Is(err, errBeyond) {
				t.Errorf("page %d with byte %d changed: %v", at/pageSize, field, err)
			}
		}
		wrong := bytes.Clone(page)
		binary.NativeEndian.PutUint16(wrong[10:], pageSize/elementSize)
		if err := checkPage(wrong); !errors.Is(err, errBeyond) {
			t.Errorf("page %d with too many rows: %v", at/pageSize, err)
		}
	}
	if leaves < 10 {
		t.Errorf("the file has %d pages of rows, want more", leaves)
	}
}
