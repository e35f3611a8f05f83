package boltledger

import (
	"encoding/binary"
	"hash/crc32"

	"quotad/quota"
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

// idSize is the size of an entry's id as a key: two big-endian numbers, so that the
// file's order is the log's.
const idSize = 16

func encodeID(id quota.ID) []byte {
	b := make([]byte, 0, idSize)
	b = binary.BigEndian.AppendUint64(b, uint64(id.Ms))
	return binary.BigEndian.AppendUint64(b, uint64(id.Seq))
}

func decodeID(b []byte) quota.ID {
	return quota.ID{
		Ms:  int64(binary.BigEndian.Uint64(b[:8])),
		Seq: int64(binary.BigEndian.Uint64(b[8:])),
	}
}
