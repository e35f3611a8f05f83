package boltledger

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// lockWait is how long Open waits for another process to release the file.
const lockWait = 200 * time.Millisecond

// open opens the file, creates it where there is none, and reads all of it once:
// a log that lacks something is a budget that is too large.
func (l *File) open(config Config) (err error) {
	isNew, err := checkSize(config.Path)
	if err != nil {
		return err
	}
	config.AcceptNew = config.AcceptNew || acceptedByRoot(config.Path)
	if isNew && config.History && !config.AcceptNew {
		return errUnexpected(config.Path, "is missing, though there has been one")
	}
	if isNew { // or the next start would take what a full disk leaves of it for a damaged file
		defer func() {
			if err != nil {
				os.Remove(config.Path)
			}
		}()
	}
	var file *os.File
	var own identity
	err = guard(func() error {
		own, err = l.openDB(config, &bbolt.Options{NoSync: config.Unsynced, FreelistType: bbolt.FreelistMapType}, &file)
		return err
	})
	if fault := (&faultError{}); errors.As(err, &fault) {
		return errors.Join(damaged(config.Path, fault.Error()), abandon(file))
	}
	if err != nil {
		return err
	}
	if err := l.openTail(config, isNew, own); err != nil {
		return errors.Join(err, l.db.Close())
	}
	return nil
}

// abandon unlocks a file that bbolt cannot close any more, so that a restored one can be opened.
// Its mapping stays, and would keep it locked.
func abandon(file *os.File) error {
	return errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
}

// openDB opens the file, which is in opened even if it does not return, and says which ledger it
// is. A new one becomes a ledger.
func (l *File) openDB(config Config, options *bbolt.Options, opened **os.File) (own identity, err error) {
	options.Timeout = lockWait
	options.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		file, err := os.OpenFile(name, flag, mode)
		*opened = file
		return file, err
	}
	_, missing := os.Stat(config.Path)
	l.db, err = bbolt.Open(config.Path, 0o600, options)
	if err != nil {
		return own, openError(config.Path, err)
	}
	if missing != nil {
		err = l.db.Update(createHead)
	}
	if err == nil {
		err = l.db.View(check)
	}
	if err == nil {
		err = l.db.View(func(tx *bbolt.Tx) (err error) {
			own, err = identityOf(tx)
			return err
		})
	}
	if err != nil {
		return own, errors.Join(unfit(config.Path, err), l.db.Close())
	}
	return own, nil
}

// openTail reads the tail, and opens it and the position if the ledger is the one that was
// here.
func (l *File) openTail(config Config, isNew bool, own identity) (err error) {
	if l.tail, l.unread, err = readTail(config.Path, own); err != nil {
		return unfit(config.Path, err)
	}
	if err := l.expect(config, isNew, own, l.tail.at.seq); err != nil {
		return err
	}
	if err := l.tail.open(config.Path); err != nil {
		return errors.Join(err, l.position.close())
	}
	tails := tailPaths(config.Path)
	for i, path := range []string{config.Path, tails[0], tails[1]} {
		info, err := os.Stat(path)
		if err != nil {
			return errors.Join(err, l.position.close(), l.tail.close())
		}
		l.files = append(l.files, openFile{path: path, info: info})
		if i == 0 {
			l.files[i].size = info.Size()
		}
	}
	return nil
}

// unfit says what is wrong with a file that cannot be used.
func unfit(path string, err error) error {
	if errors.Is(err, errVersion) {
		return fmt.Errorf("cannot open ledger %q: %w: move it away and start once with --accept-new-ledger to begin with an empty log (every limit then counts from zero)", path, err)
	}
	return damaged(path, err.Error())
}

func openError(path string, err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("cannot open ledger %q: another process uses it", path)
	}
	if errors.Is(err, bolterrors.ErrInvalid) || errors.Is(err, bolterrors.ErrChecksum) || errors.Is(err, bolterrors.ErrVersionMismatch) {
		return damaged(path, err.Error())
	}
	return fmt.Errorf("cannot open ledger %q: %w", path, err)
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

// check returns what is wrong with the file's content.
func check(tx *bbolt.Tx) error {
	info, err := os.Stat(tx.DB().Path())
	if err != nil {
		return err
	}
	if info.Size() < tx.Size() {
		return fmt.Errorf("the file has %d bytes of %d", info.Size(), tx.Size())
	}
	if err := checkPages(tx); err != nil {
		return err
	}
	if err := checkCredentials(tx); err != nil {
		return err
	}
	for found := range tx.Check() { // to its end: it blocks until all is received
		err = errors.Join(err, found)
	}
	return err
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

// guard calls f and returns a fault as an error.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &faultError{r}
		}
	}()
	return f()
}
