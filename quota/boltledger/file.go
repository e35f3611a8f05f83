package boltledger

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// A Config says where the ledger is and how it behaves.
type Config struct {
	Path string // of the file; its directory must exist
	// Unsynced leaves writing to disk to the operating system: a crash of the
	// machine, not of the daemon, then loses the grants of the last seconds.
	Unsynced bool
	// History says that there has been a ledger here: one that is new then is a
	// fresh budget for everybody, and is refused.
	History bool
	// AcceptNew accepts the ledger that is there, though it is new, another one, or
	// older than it was.
	AcceptNew bool
	// Began, if not nil, is called with what is new about the ledger, if it is not the one
	// that was here last: every limit then counts what it holds, and no more.
	Began func(how string)
}

// A File is a slidinglog.File: bbolt with a tail. It belongs to one process at a time.
type File struct {
	db       *bbolt.DB
	unread   []frame // of the tail, until the first Fold
	tail     *tail
	position *position
	files    []openFile
	unsynced bool
	broken   atomic.Pointer[error]     // why the file cannot be used any more, once that is so
	looked   atomic.Pointer[time.Time] // when its files were last where they belong; nil: it is to be checked

	mu        sync.Mutex // guards what follows
	folding   error      // why the tables could not be written last; nil when they could
	appending error      // why the tail could not
}

var _ slidinglog.File = (*File)(nil)

// Close waits for what uses the file, and closes it. One that became unusable is left to the
// end of the process: bbolt may wait for ever for what a fault left locked.
func (l *File) Close() error {
	if broken := l.broken.Load(); broken != nil {
		return errors.Join(*broken, l.closeOthers())
	}
	if err := errors.Join(l.db.Close(), l.closeOthers()); err != nil {
		return fmt.Errorf("cannot close ledger %q: %w", l.db.Path(), err)
	}
	return nil
}

// View implements slidinglog.File. A transaction begins when f first reads. A Fold for which the file
// grows then waits for f, and further readers wait for that Fold: f must not wait for either.
func (l *File) View(credential string, f func(slidinglog.Tables) error) error {
	if err := l.usable(); err != nil {
		return err
	}
	return l.guarded(func() error {
		t := tables{db: l.db, credential: credential}
		defer t.end()
		err := f(&t)
		return cmp.Or(err, readError(t.err))
	})
}

// Head implements slidinglog.File.
func (l *File) Head() (head []byte, err error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	err = l.guarded(func() error {
		return l.db.View(func(tx *bbolt.Tx) error {
			value, err := getHead(tx, callerKey)
			head = append(head, value...)
			return readError(err)
		})
	})
	return head, err
}

// SetHead implements slidinglog.File.
func (l *File) SetHead(head []byte) error {
	return l.update(func(tx *bbolt.Tx) error { return putHead(tx, callerKey, head) })
}

// Tail implements slidinglog.File. The tail ends at a frame that a crash tore; Open refuses a tail
// that lacks a synced frame.
func (l *File) Tail(f func(credential string, frame []byte) error) error {
	for _, frame := range l.unread {
		if frame.credential == "" {
			continue
		}
		if err := f(frame.credential, frame.data); err != nil {
			return err
		}
	}
	return nil
}

// Room implements slidinglog.File.
func (l *File) Room(credential string, n int) error {
	err := l.usable()
	if err == nil {
		err = l.tail.reserve(credential, n)
	}
	return l.record(&l.appending, err)
}

// Append implements slidinglog.File. Callers at the same time share one sync. What is synced may be nowhere
// else, so its files are checked first.
func (l *File) Append(credential string, frame []byte, sync bool) error {
	check := l.usable
	if sync {
		check = l.look
	}
	err := check()
	if err == nil {
		err = l.append(credential, frame, sync && !l.unsynced)
	}
	return l.record(&l.appending, err)
}

func (l *File) append(credential string, frame []byte, sync bool) error {
	m, err := l.tail.append(credential, frame)
	if err != nil || !sync {
		return err
	}
	onDisk, err := l.tail.sync(m.seq)
	if err == nil {
		l.position.write(0, onDisk)
	}
	return err
}

// Cut implements slidinglog.File.
func (l *File) Cut() { l.tail.endSegment() }

// Fold implements slidinglog.File.
func (l *File) Fold(changes []slidinglog.TableChange) error {
	upTo, ahead := l.tail.toFold()
	if len(changes) == 0 && !ahead {
		return nil
	}
	err := l.update(func(tx *bbolt.Tx) error {
		for i := range changes {
			if err := change(tx, &changes[i]); err != nil {
				return fmt.Errorf("credential %q: %w", changes[i].Credential, err)
			}
		}
		return putFolded(tx, upTo)
	})
	if err == nil {
		l.tail.fold(upTo)
		l.unread = slices.DeleteFunc(l.unread, func(f frame) bool { return f.seq <= upTo.seq })
	}
	return err
}

// Health implements slidinglog.File. Whether the tail has room is tried. Else, whether the file can be written
// is known from the last time that it was.
func (l *File) Health() (unwritten []string, err error) {
	err = errors.Join(l.displaced(), l.position.health())
	room := l.tail.hasRoom()
	l.mu.Lock()
	defer l.mu.Unlock()
	if room != nil || errors.Is(l.appending, syscall.ENOSPC) {
		l.appending = room
	}
	if l.folding != nil && l.appending == nil {
		unwritten = append(unwritten, fmt.Sprintf("the tables cannot be written, and calls are refused when the tail is full: %v", l.folding))
		return unwritten, err
	}
	return unwritten, errors.Join(err, l.folding, l.appending)
}

// record keeps the result of a write for Health, and returns it.
func (l *File) record(last *error, err error) error {
	if err != nil {
		l.looked.Store(nil)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	*last = err
	return err
}

// update calls f to change the file, durably. After an error the file is as it was, unless it
// cannot be used any more.
func (l *File) update(f func(*bbolt.Tx) error) error {
	err := l.look()
	if err == nil {
		err = l.guarded(func() error { return l.commit(f) })
	}
	return l.record(&l.folding, err)
}

func (l *File) commit(f func(*bbolt.Tx) error) error {
	tx, err := l.db.Begin(true)
	if err != nil {
		return writeError(err)
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return writeError(err)
	}
	transaction := tx.ID() // it has none when it has ended
	if err := tx.Commit(); err != nil {
		return l.commitError(transaction, err)
	}
	l.position.write(l.synced(transaction), 0)
	return nil
}

// synced returns a transaction if it is sure to be on disk, else 0.
func (l *File) synced(transaction int) int {
	if l.unsynced {
		return 0
	}
	return transaction
}

func writeError(err error) error {
	cure := ""
	if errors.Is(err, syscall.ENOSPC) {
		cure = ": free space on the disk"
	}
	return fmt.Errorf("cannot write ledger%s: %w: %w", cure, quota.ErrUnavailable, err)
}

// commitError distinguishes a transaction that was not carried out from one that may have been.
// After the latter the file is not used any more: the frames of it in the tail must not be
// overwritten.
func (l *File) commitError(transaction int, err error) error {
	now := 0
	_ = l.db.View(func(tx *bbolt.Tx) error {
		now = tx.ID()
		return nil
	})
	if now < transaction {
		return writeError(err)
	}
	return l.giveUp(fmt.Errorf("ledger %q may not be on disk, restart quotad: %w", l.db.Path(), err))
}

// guarded calls f, and returns a fault as an error.
func (l *File) guarded(f func() error) error {
	err := guard(f)
	if fault := (&faultError{}); errors.As(err, &fault) {
		return l.giveUp(fmt.Errorf("ledger %q was damaged while quotad had it open, restart quotad: %w", l.db.Path(), fault))
	}
	return err
}

// giveUp ends the use of the file.
func (l *File) giveUp(why error) error {
	later := fmt.Errorf("%w: %w", quota.ErrUnavailable, why)
	l.broken.Store(&later)
	l.record(&l.folding, later)
	return fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, why)
}

// lookTime is for how long files that were where they belong are taken to be there: to look for them
// costs more than to read a key.
const lookTime = time.Second

// usable returns an error if the file is not where it was, or is unusable. It is unusable from the
// first fault on: bbolt never releases the locks that it held then.
func (l *File) usable() error {
	if at := l.looked.Load(); at != nil && time.Since(*at) < lookTime && l.broken.Load() == nil {
		return nil
	}
	return l.look()
}

// look is usable as of now.
func (l *File) look() error {
	if broken := l.broken.Load(); broken != nil {
		return *broken
	}
	at, err := new(time.Now()), l.displaced()
	if err != nil {
		at = nil
	}
	l.looked.Store(at)
	return err
}

// An openFile is a file as it was when it was opened.
type openFile struct {
	path string
	info os.FileInfo
	size int64 // it has no less; 0 of one that may shrink
}

// displaced returns an error if the path of a file does not lead to the open one any more, or if
// that is shorter than it was: the next start would not find what is written to it.
func (l *File) displaced() error {
	for _, file := range l.files {
		now, err := os.Stat(file.path)
		switch {
		case err != nil || !os.SameFile(now, file.info):
			return fmt.Errorf("ledger %q was moved, removed or replaced while quotad had it open: move it back, or restart quotad to continue with the file that is there now: %w",
				file.path, quota.ErrUnavailable)
		case now.Size() < file.size:
			return fmt.Errorf("ledger %q was cut short while quotad had it open: restore it from a backup: %w", file.path, quota.ErrUnavailable)
		}
	}
	return nil
}
