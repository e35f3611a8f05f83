package boltledger

import (
	"encoding/binary"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealSize is what a seal adds to a value.
const sealSize = 4

// seal returns a copy of a value, followed by a checksum of its key and itself.
func seal(key, value []byte) []byte {
	sealed := append(make([]byte, 0, len(value)+sealSize), value...)
	return binary.BigEndian.AppendUint32(sealed, checksum(key, value))
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// unseal returns a value without its checksum, and whether it is as it was written.
func unseal(key, sealed []byte) (value []byte, ok bool) {
	n := len(sealed) - sealSize
	if n < 0 || binary.BigEndian.Uint32(sealed[n:]) != checksum(key, sealed[:n]) {
		return nil, false
	}
	return sealed[:n:n], true
}
