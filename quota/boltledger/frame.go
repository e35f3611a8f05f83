package boltledger

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// A frame is, in big-endian numbers: a checksum (4 bytes) of all that follows and of the
// frame before; the length of what follows that (4); its number (8); the length of its
// credential's name (1), the name, and the caller's bytes. Numbers grow by one.
//
// A frame of no credential is the head of a stretch. After the last frame there may be bytes of an
// earlier use of the stretch, or of a crash. Their checksums do not fit the frames before them,
// and a process that writes there fills them with zeros first.
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

// A frame is one that was read.
type frame struct {
	mark       // behind it
	end        int64
	credential string
	data       []byte
}

// appendFrame appends the frame that follows a place, and returns the mark behind it. A
// stretch begins with the sum 0.
func appendFrame(b []byte, seed uint32, seq uint64, credential string, data []byte) ([]byte, mark) {
	at := len(b)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(frameOverhead-numberAt+len(credential)+len(data)))
	b = binary.BigEndian.AppendUint64(b, seq)
	b = append(append(append(b, byte(len(credential))), credential...), data...)
	sum := crc32.Update(seed, castagnoli, b[at+lengthAt:])
	binary.BigEndian.PutUint32(b[at:], sum)
	return b, mark{seq, sum}
}

// readFrame reads the frame at the beginning of b, which is not whole if ok is false.
func readFrame(b []byte, seed uint32) (f frame, ok bool) {
	if len(b) < frameOverhead {
		return f, false
	}
	end := numberAt + uint64(binary.BigEndian.Uint32(b[lengthAt:]))
	name := frameOverhead + uint64(b[nameAt])
	if end < name || end > uint64(len(b)) {
		return f, false
	}
	f = frame{
		mark:       mark{binary.BigEndian.Uint64(b[numberAt:]), binary.BigEndian.Uint32(b)},
		end:        int64(end),
		credential: string(b[frameOverhead:name]),
		data:       b[name:end],
	}
	return f, f.sum == crc32.Update(seed, castagnoli, b[lengthAt:end])
}

// headData is what a head says: the version, the ledger's id, and the sum of the frame
// before it, by which a stretch is known to follow the other one.
func headData(id string, before uint32) []byte {
	b := append([]byte(version+"\n"+id), '\n')
	return binary.BigEndian.AppendUint32(b, before)
}

// A written is the content of a stretch, up to the first frame that is not whole.
type written struct {
	before mark // its first frame
	frames []frame
}

// readStretch reads a stretch of the tail of a ledger. One of another ledger has no frames.
func readStretch(content []byte, id string) (w written, err error) {
	for at, seed := int64(0), uint32(0); ; {
		f, ok := readFrame(content[at:], seed)
		if !ok || at > 0 && f.seq != w.frames[len(w.frames)-1].seq+1 {
			return w, nil
		}
		if at == 0 {
			before, err := readHead(f, id)
			if err != nil || before == nil {
				return w, err
			}
			w.before = mark{f.seq - 1, *before}
		}
		at += f.end
		f.end, seed = at, f.sum
		w.frames = append(w.frames, f)
	}
}

// readHead returns the sum of the frame before a head, nil if it is another ledger's. The
// version and the id stand at the same place in all versions.
func readHead(f frame, id string) (before *uint32, err error) {
	of, data, ok1 := bytes.Cut(f.data, []byte("\n"))
	whose, data, ok2 := bytes.Cut(data, []byte("\n"))
	switch {
	case f.credential != "" || !ok1 || !ok2 || string(whose) != id:
		return nil, nil
	case string(of) != version || len(data) < 4:
		return nil, errVersion
	}
	sum := binary.BigEndian.Uint32(data)
	return &sum, nil
}

// after returns the frames that follow a mark in the stretch.
func (w *written) after(m mark) []frame {
	if w.before == m {
		return w.frames
	}
	for i := range w.frames {
		if w.frames[i].mark == m {
			return w.frames[i+1:]
		}
	}
	return nil
}
