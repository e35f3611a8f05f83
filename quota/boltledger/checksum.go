package boltledger

import (
	"encoding/binary"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksumSize is what a checksum adds to a value.
const checksumSize = 4

// withChecksum returns a copy of a value, followed by a checksum of its key and itself.
func withChecksum(key, value []byte) []byte {
	stored := append(make([]byte, 0, len(value)+checksumSize), value...)
	return binary.BigEndian.AppendUint32(stored, checksum(key, value))
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// checked returns a value without its checksum, and whether it is as it was written.
func checked(key, stored []byte) (value []byte, ok bool) {
	n := len(stored) - checksumSize
	if n < 0 || binary.BigEndian.Uint32(stored[n:]) != checksum(key, stored[:n]) {
		return nil, false
	}
	return stored[:n:n], true
}
