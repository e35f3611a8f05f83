package boltledger

import (
	"encoding/binary"
	"hash/crc32"
)

// A frame is, in big-endian numbers: a checksum (4 bytes) of all that follows and of the
// frame before; the length of what follows that (4); its number (8); the length of its
// credential's name (1), the name, and the caller's bytes. Numbers grow by one. The first frame of
// a ledger follows the mark of its id.
//
// After the last frame of a segment there may be bytes of an earlier use, or of a crash. Their
// checksums do not fit the frames before them, and a process that writes there fills them with
// zeros first.
const (
	lengthAt      = 4
	numberAt      = lengthAt + 4
	nameAt        = numberAt + 8
	frameOverhead = nameAt + 1
)

// A mark is a place in the tail: after the frame of that number. The sum is the frame's,
// and so depends on all frames before it: an equal mark means an equal past.
type mark struct {
	seq uint64
	sum uint32
}

// beginning returns the mark before the first frame of a ledger.
func beginning(id string) mark { return mark{sum: crc32.Checksum([]byte(id), castagnoli)} }

// A frame is one that was read.
type frame struct {
	mark       // behind it
	end        int64
	credential string
	data       []byte
}

// appendFrame appends the frame that follows a mark, and returns the mark behind it.
func appendFrame(b []byte, after mark, credential string, data []byte) ([]byte, mark) {
	at := len(b)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(frameOverhead-numberAt+len(credential)+len(data)))
	b = binary.BigEndian.AppendUint64(b, after.seq+1)
	b = append(append(append(b, byte(len(credential))), credential...), data...)
	sum := crc32.Update(after.sum, castagnoli, b[at+lengthAt:])
	binary.BigEndian.PutUint32(b[at:], sum)
	return b, mark{after.seq + 1, sum}
}

// readSegment returns the frames of a segment that follow a mark, up to the first that is not whole.
func readSegment(content []byte, after mark) (frames []frame) {
	for at := int64(0); ; {
		f, sum, ok := readFrame(content[at:], after.sum)
		at += f.end
		switch {
		case ok && f.seq <= after.seq && len(frames) == 0: // the tables have it
			continue
		case !ok || f.seq != after.seq+1 || f.sum != sum:
			return frames
		}
		f.end, after = at, f.mark
		frames = append(frames, f)
	}
}

// readFrame reads the frame at the beginning of b, and returns the sum that it has if it follows a
// frame with another one. It is not whole if ok is false.
func readFrame(b []byte, before uint32) (f frame, sum uint32, ok bool) {
	if len(b) < frameOverhead {
		return f, 0, false
	}
	end := numberAt + uint64(binary.BigEndian.Uint32(b[lengthAt:]))
	name := frameOverhead + uint64(b[nameAt])
	if end < name || end > uint64(len(b)) {
		return f, 0, false
	}
	f = frame{
		mark:       mark{binary.BigEndian.Uint64(b[numberAt:]), binary.BigEndian.Uint32(b)},
		end:        int64(end),
		credential: string(b[frameOverhead:name]),
		data:       b[name:end],
	}
	return f, crc32.Update(before, castagnoli, b[lengthAt:end]), true
}
