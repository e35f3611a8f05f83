package boltledger

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"quotad/quota/slidinglog"
)

// lockWait is how long Open waits for another process to release the file.
const lockWait = 200 * time.Millisecond

// Open opens the ledger, and creates it where there is no file. A file that is not a whole
// ledger, or not the one that was here, is an error and stays as it is.
func Open(config Config) (*File, error) {
	l, how, err := inspect(config, &bbolt.Options{NoSync: config.Unsynced, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, err
	}
	if err := l.openOthers(config.Path); err != nil {
		return nil, errors.Join(err, l.db.Close(), l.closeOthers())
	}
	if how != "" && config.Began != nil {
		config.Began(how)
	}
	return l, nil
}

// Verify returns why Open would fail, or what check says of the file and its credentials. It changes nothing: it opens
// the file for reading.
func Verify(config Config, check func(l *File, credentials []string) error) error {
	l, _, err := inspect(config, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil || l == nil {
		return err
	}
	var credentials []string
	err = l.db.View(func(tx *bbolt.Tx) (err error) {
		credentials, err = credentialsOf(tx)
		return err
	})
	if err == nil {
		err = check(l, credentials)
	}
	return errors.Join(err, l.db.Close())
}

// inspect opens the file, and reads all of it and of its tail once: a log that lacks something is a
// budget that is too large. Where there is none, it creates one, or returns nil if it may only read.
// how is what is new about the ledger.
func inspect(config Config, options *bbolt.Options) (_ *File, how string, err error) {
	isNew, err := checkSize(config.Path)
	if err != nil {
		return nil, "", err
	}
	l := &File{unsynced: config.Unsynced}
	if l.position, err = readPosition(config.Path); err != nil {
		return nil, "", err
	}
	config.AcceptNew = config.AcceptNew || acceptedByRoot(config.Path)
	if isNew {
		if how, err = config.compare(true, identity{}, 0, l.position); err != nil || options.ReadOnly {
			return nil, how, err
		}
		defer func() { // or the next start would take what a full disk leaves of it for a damaged file
			if err != nil {
				os.Remove(config.Path)
			}
		}()
	}
	own, err := l.openDB(config.Path, options, isNew)
	if err != nil {
		return nil, "", err
	}
	if l.tail, l.unread, err = readTail(config.Path, own.folded); err == nil && !isNew {
		how, err = config.compare(false, own, l.tail.at.seq, l.position)
	}
	if err != nil {
		return nil, "", errors.Join(err, l.db.Close())
	}
	if l.position.id != own.id || config.AcceptNew {
		l.position = &position{id: own.id}
	}
	l.position.transaction = max(l.position.transaction, l.synced(own.transaction))
	l.position.seq = max(l.position.seq, own.folded.seq)
	return l, how, nil
}

// openDB opens the file, reads all of it, and returns which ledger it is. A new one becomes a ledger.
func (l *File) openDB(path string, options *bbolt.Options, isNew bool) (own identity, err error) {
	var file *os.File // even if bbolt does not return
	options.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		file, err = os.OpenFile(name, flag, mode)
		return file, err
	}
	err = guard(func() error {
		if l.db, err = openBolt(path, fmt.Sprintf("ledger %q", path), options); err != nil {
			return err
		}
		if isNew {
			err = l.db.Update(createHead)
		}
		if err == nil {
			err = l.db.View(func(tx *bbolt.Tx) (err error) {
				own, err = check(tx)
				return err
			})
		}
		if err != nil {
			return errors.Join(unfit(path, err), l.db.Close())
		}
		return nil
	})
	if fault := (&faultError{}); errors.As(err, &fault) {
		// bbolt may not have closed the file, and cannot any more. Its mapping stays, and would keep it
		// locked, even for one that is restored.
		syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
		file.Close()
		return own, damaged(path, fault.Error())
	}
	return own, err
}

// openOthers opens the files beside the ledger.
func (l *File) openOthers(path string) error {
	if err := l.tail.open(path); err != nil {
		return err
	}
	if err := l.position.open(path); err != nil {
		return err
	}
	tails := tailPaths(path)
	for i, path := range []string{path, tails[0], tails[1]} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		l.files = append(l.files, openFile{path: path, info: info})
		if i == 0 {
			l.files[i].size = info.Size()
		}
	}
	return nil
}

func (l *File) closeOthers() error { return errors.Join(l.position.close(), l.tail.close()) }

// ErrDamaged: the file is not a whole ledger. It stays as it is.
var ErrDamaged = errors.New("is damaged")

func damaged(path, how string) error {
	return fmt.Errorf("ledger %q %w: %s; restore it from a backup, or move it away and start once with --accept-new-ledger to begin with an empty log (every limit then counts from zero)", path, ErrDamaged, how)
}

// Move moves a ledger with all of its files. No process may have it open.
func Move(from, to string) error {
	var wrong error
	for _, part := range []string{"", ".tail0", ".tail1", ".position"} {
		if err := os.Rename(from+part, to+part); !errors.Is(err, os.ErrNotExist) {
			wrong = errors.Join(wrong, err)
		}
	}
	return wrong
}

// unfit says what is wrong with a file that cannot be used.
func unfit(path string, err error) error {
	if errors.Is(err, slidinglog.ErrVersion) {
		return fmt.Errorf("cannot open ledger %q: %w", path, err)
	}
	return damaged(path, err.Error())
}

// openBolt opens a file, which errors call by a name. One that bbolt does not take for one of its own
// is a fault.
func openBolt(path, name string, options *bbolt.Options) (*bbolt.DB, error) {
	options.Timeout = lockWait
	db, err := bbolt.Open(path, 0o600, options)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("cannot open %s: another process uses it", name)
	case errors.Is(err, bolterrors.ErrInvalid) || errors.Is(err, bolterrors.ErrChecksum) || errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, &faultError{err}
	case err != nil:
		return nil, fmt.Errorf("cannot open %s: %w", name, err)
	}
	return db, nil
}

// checkSize refuses a file that is too small: bbolt would treat an empty one as a new ledger,
// with a whole budget for all.
func checkSize(path string) (isNew bool, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot open ledger: %w", err)
	}
	if info.Size() < smallest {
		return false, damaged(path, fmt.Sprintf("the file has %d bytes, and none has less than %d", info.Size(), smallest))
	}
	return false, nil
}

// smallest is the size of a file without content: four pages of the smallest size.
const smallest = 4 * 4096

// check reads all that the file has, and returns which ledger it is.
func check(tx *bbolt.Tx) (own identity, err error) {
	info, err := os.Stat(tx.DB().Path())
	if err != nil {
		return own, err
	}
	if info.Size() < tx.Size() {
		return own, fmt.Errorf("the file has %d bytes of %d", info.Size(), tx.Size())
	}
	if err := checkPages(tx); err != nil {
		return own, err
	}
	if err := checkCredentials(tx); err != nil {
		return own, err
	}
	for found := range tx.Check(bbolt.WithKVStringer(unreadable{})) { // to its end: it blocks until all is received
		err = cmp.Or(err, found)
	}
	if err != nil {
		return own, err
	}
	return identityOf(tx)
}

// unreadable has no text for a key or a value, which may lead out of the file in a damaged page.
type unreadable struct{}

func (unreadable) KeyToString([]byte) string   { return "…" }
func (unreadable) ValueToString([]byte) string { return "…" }

// checkPages checks that no page continues past the end of the file: tx.Check counts that far, and
// ends the process if it faults. It does not fault where checkCredentials has read all rows before.
func checkPages(tx *bbolt.Tx) error {
	pages := int(tx.Size() / int64(tx.DB().Info().PageSize))
	for id := 0; id < pages; id++ {
		page, err := tx.Page(id)
		if err != nil {
			return err
		}
		if page.Type == "free" { // what it says is out of date
			continue
		}
		if id += page.OverflowCount; id >= pages {
			return fmt.Errorf("page %d of %d continues to page %d", page.ID, pages, id)
		}
	}
	return nil
}

// checkCredentials reads all that the file has, and checks that nothing is missing.
func checkCredentials(tx *bbolt.Tx) error {
	if err := checkHead(tx); err != nil {
		return err
	}
	names, err := credentialsOf(tx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := openTables(tx, name).check(); err != nil {
			return fmt.Errorf("credential %q: %w", name, err)
		}
	}
	return nil
}

// A faultError is bbolt's panic about a damaged file, or the kernel's fault in one that ends too
// soon.
type faultError struct{ cause any }

func (e *faultError) Error() string { return fmt.Sprint(e.cause) }

// guard calls f and returns a fault as an error. It lets any other panic of f through.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if what := recover(); isFault(what) {
			err = &faultError{what}
		} else if what != nil {
			panic(what)
		}
	}()
	return f()
}

// isFault reports whether a panic, which its caller has just recovered, is the kernel's or bbolt's.
func isFault(what any) bool {
	if _, atAddress := what.(interface{ Addr() uintptr }); what == nil || atAddress {
		return atAddress
	}
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	frame, more := frames.Next()
	for more && strings.HasPrefix(frame.Function, "runtime.") {
		frame, more = frames.Next()
	}
	return strings.HasPrefix(frame.Function, "go.etcd.io/bbolt")
}
