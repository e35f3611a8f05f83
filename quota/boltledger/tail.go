package boltledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// A tail is what was written since the tables were: two files that are overwritten in turn,
// each with a segment of frames. Their room is made in advance, of zeros, so that no frame
// lacks it, and a sync has nothing to write but the frame. (A file system that copies what is
// overwritten, as btrfs does, may lack room even so.)
type tail struct {
	fdatasync func(*os.File) error

	wasSynced   sync.Cond  // of mu: a sync has ended
	mu          sync.Mutex // guards what follows; held for one write
	segments    [2]segment
	active      int            // the segment that is written to
	at          mark           // the last frame
	cut         mark           // the last one before the last Cut, which the next Fold has
	folded      mark           // up to which the tables have it
	synced      uint64         // the number of the last frame that is sure to be on disk
	syncing     bool           // a sync is under way
	failed      error          // why nothing can be written any more, once that is so
	reserved    map[string]int // bytes, by credential
	reservedSum int
	refused     int    // bytes that could not be reserved last; 0: they could
	buf         []byte // of the last write
}

// A segment is one of the two files.
type segment struct {
	file *os.File
	room int64  // up to where this process has made sure of it; behind end all is zeros up to there
	end  int64  // behind the last frame; 0: none is needed
	last uint64 // the number of the last frame
}

const (
	roomStep   = 1 << 20
	roomEnds   = 16 * roomStep // a segment that became larger is cut back
	maxName    = 64            // bytes of a credential
	maxFrame   = frameOverhead + maxName
	maxReserve = slidinglog.RoomFrames * maxFrame // what the frames of a Room need more than their bytes
)

func tailPaths(ledger string) [2]string { return [2]string{ledger + ".tail0", ledger + ".tail1"} }

// readTail reads the frames that follow a mark, which the tables have, up to the first that is not
// whole, and returns the tail as it is behind them. Its files are not open yet.
func readTail(ledger string, folded mark) (t *tail, unread []frame, err error) {
	t = &tail{at: folded, cut: folded, folded: folded, synced: folded.seq, reserved: make(map[string]int),
		fdatasync: func(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }}
	t.wasSynced.L = &t.mu
	var contents [2][]byte
	for i, path := range tailPaths(ledger) {
		if contents[i], err = os.ReadFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("cannot read the ledger's tail: %w", err)
		}
	}
	for _, i := range [3]int{0, 1, 0} { // either may be the first
		if more := readSegment(contents[i], t.at); len(more) > 0 {
			last := more[len(more)-1]
			unread = append(unread, more...)
			t.active, t.at = i, last.mark
			t.segments[i].end, t.segments[i].last = last.end, last.seq
		}
	}
	return t, unread, nil
}

// open opens the files, and creates them where there are none.
func (t *tail) open(ledger string) (err error) {
	for i, path := range tailPaths(ledger) {
		s := &t.segments[i]
		if s.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return fmt.Errorf("cannot open the ledger's tail: %w", err)
		}
		s.room = s.end
	}
	dir, err := os.Open(filepath.Dir(ledger))
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot sync the ledger's directory: %w", err)
	}
	return nil
}

func (t *tail) close() (err error) {
	for _, s := range t.segments {
		if s.file != nil {
			err = errors.Join(err, s.file.Close())
		}
	}
	return err
}

// reserve makes sure of room for n bytes of frames of a credential, in place of what was reserved
// for it before.
func (t *tail) reserve(credential string, n int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil {
		return fmt.Errorf("%w: %w", quota.ErrUnavailable, t.failed)
	}
	t.release(credential, t.reserved[credential])
	if err := t.makeRoom(n + maxReserve); err != nil {
		t.refused = n
		return err
	}
	t.refused, t.reserved[credential] = 0, n
	t.reservedSum += n
	return nil
}

// hasRoom returns why there is no room for what was not reserved last, or for a small record; nil if there is.
func (t *tail) hasRoom() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.makeRoom(t.refused + maxReserve)
}

// release gives up n bytes of what is reserved for a credential.
func (t *tail) release(credential string, n int) {
	reserved := t.reserved[credential]
	t.reservedSum -= min(n, reserved)
	if n < reserved {
		t.reserved[credential] = reserved - n
	} else {
		delete(t.reserved, credential)
	}
}

// needs is the room that is reserved in all.
func (t *tail) needs() int64 { return int64(t.reservedSum + len(t.reserved)*maxReserve) }

// makeRoom makes sure of room for n bytes more than what is reserved. The other segment gets room
// for what is reserved, too.
func (t *tail) makeRoom(n int) error {
	active, other := &t.segments[t.active], &t.segments[1-t.active]
	if err := active.grow(active.end + t.needs() + int64(n)); err != nil {
		return err
	}
	if other.end == 0 {
		return other.grow(t.needs() + int64(n))
	}
	return nil
}

// grow makes the room of a segment at least that large. Unlike fallocate, it leaves no metadata of
// the file to write when a frame is synced.
func (s *segment) grow(to int64) error {
	if to <= s.room {
		return nil
	}
	to = (to + roomStep - 1) / roomStep * roomStep
	if _, err := s.file.WriteAt(make([]byte, to-s.room), s.room); err != nil {
		err = errors.Join(err, s.file.Truncate(s.room)) // others need what there is
		return fmt.Errorf("%w: no room in the tail of the ledger: free space on the disk: %w", quota.ErrUnavailable, err)
	}
	s.room = to
	return nil
}

// append writes a frame.
func (t *tail) append(credential string, data []byte) (m mark, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil {
		return m, fmt.Errorf("%w: %w", quota.ErrUnavailable, t.failed)
	}
	if len(credential) == 0 || len(credential) > maxName {
		return m, fmt.Errorf("a frame's credential has 1 to %d bytes: %q", maxName, credential)
	}
	if len(data) > t.reserved[credential] {
		if err := t.makeRoom(len(data) + maxFrame); err != nil {
			return m, err
		}
	}
	t.release(credential, len(data))
	s := &t.segments[t.active]
	t.buf, m = appendFrame(t.buf[:0], t.at, credential, data)
	if _, err := s.file.WriteAt(t.buf, s.end); err != nil {
		return m, fmt.Errorf("cannot write the ledger's tail: %w: %w", quota.ErrUnavailable, err)
	}
	s.end, s.last = s.end+int64(len(t.buf)), m.seq
	t.at = m
	return m, nil
}

// sync returns when the frames up to a number are on disk, and up to which number they are. One caller
// at a time syncs, for all frames that there are by then; the others wait for it.
func (t *tail) sync(seq uint64) (onDisk uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.synced < seq {
		switch {
		case t.failed != nil:
			return 0, fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, t.failed)
		case t.syncing:
			t.wasSynced.Wait()
		default:
			t.syncAll()
		}
	}
	return t.synced, nil
}

// syncAll syncs all frames, without mu while it waits for the disk. It syncs the other segment, too,
// if no Fold has made that durable yet.
func (t *tail) syncAll() {
	var files []*os.File
	for _, i := range [2]int{1 - t.active, t.active} { // the earlier one first
		if s := &t.segments[i]; s.last > t.synced {
			files = append(files, s.file)
		}
	}
	upTo := t.at.seq
	t.syncing = true
	t.mu.Unlock()
	var err error
	for _, file := range files {
		err = errors.Join(err, t.fdatasync(file))
	}
	t.mu.Lock()
	t.syncing = false
	if err != nil {
		t.failed = fmt.Errorf("the tail of the ledger could not be synced, restart quotad: %w", err)
	} else {
		t.synced = max(t.synced, upTo)
	}
	t.wasSynced.Broadcast()
}

// endSegment makes the other segment the active one, if that is free. It is not free if the last
// Fold failed: then the same segment stays active, and the next Fold has all up to here.
func (t *tail) endSegment() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cut = t.at
	s, other := &t.segments[t.active], &t.segments[1-t.active]
	if s.end == 0 || other.last > t.folded.seq || other.grow(t.needs()) != nil {
		return
	}
	if other.room > roomEnds && t.needs() < roomStep && other.file.Truncate(roomStep) == nil {
		other.room = roomStep
	}
	other.end = 0
	t.active = 1 - t.active
}

// toFold returns what the next Fold has, and whether no Fold has had it yet.
func (t *tail) toFold() (cut mark, ahead bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cut, t.cut != t.folded
}

// fold says that the tables have the tail up to a mark, on disk.
func (t *tail) fold(m mark) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.folded, t.synced = m, max(t.synced, m.seq)
}
