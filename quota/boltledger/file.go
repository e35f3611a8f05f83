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

	"quotad/quota"
)

// lockWait is how long Open waits for another process to let go of the file.
const lockWait = 200 * time.Millisecond

// openFile opens the file, creates it where there is none, and reads all of it once:
// a log that lacks something is a budget that is too large.
func (l *Ledger) openFile(config Config) (err error) {
	isNew, err := checkSize(config.Path)
	if err != nil {
		return err
	}
	config.AcceptNew = config.AcceptNew || acceptedByRoot(config.Path)
	if isNew && config.History && !config.AcceptNew {
		return errUnexpected(config.Path, "is missing, though there has been one")
	}
	if isNew { // what a full disk leaves of a new file is no damaged one
		defer func() {
			if err != nil {
				os.Remove(config.Path)
			}
		}()
	}
	var file *os.File
	err = guard(func() error {
		return l.openDB(config, &bbolt.Options{NoSync: config.Unsynced, FreelistType: bbolt.FreelistMapType}, &file)
	})
	if fault := (&faultError{}); errors.As(err, &fault) {
		return errors.Join(damaged(config.Path, fault.Error()), abandon(file))
	}
	if err != nil {
		return err
	}
	if err := l.expect(config, isNew); err != nil {
		return errors.Join(err, l.db.Close())
	}
	return nil
}

// abandon unlocks a file that bbolt cannot close any more, so that one that was put back can
// be opened. What is mapped of it stays mapped, and would stay locked.
func abandon(file *os.File) error {
	return errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
}

// openDB opens the file, which is in opened even if it does not return. A new one becomes
// a ledger.
func (l *Ledger) openDB(config Config, options *bbolt.Options, opened **os.File) (err error) {
	options.Timeout = lockWait
	options.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		file, err := os.OpenFile(name, flag, mode)
		*opened = file
		return file, err
	}
	_, missing := os.Stat(config.Path)
	l.db, err = bbolt.Open(config.Path, 0o600, options)
	if err != nil {
		return openError(config.Path, err)
	}
	if missing != nil {
		err = l.db.Update(createHead)
	}
	if err == nil {
		err = l.db.View(l.check)
	}
	if err == nil {
		l.file, err = os.Stat(config.Path)
	}
	switch {
	case errors.Is(err, errVersion):
		err = fmt.Errorf("cannot open ledger %q: %w: move it away and start once with --accept-new-ledger to begin with an empty log (every limit then counts from zero)", config.Path, err)
	case err != nil:
		err = damaged(config.Path, err.Error())
	}
	if err != nil {
		return errors.Join(err, l.db.Close())
	}
	return nil
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

// checkSize refuses a file with next to nothing in it: an empty one bbolt would
// take for a new ledger, with a fresh budget for everybody.
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

// smallest is the size of a file in which nothing stands: four pages, where pages
// are smallest.
const smallest = 4 * 4096

func damaged(path, how string) error {
	return fmt.Errorf("ledger %q is damaged: %s; restore it from a backup, or move it away and start once with --accept-new-ledger to begin with an empty log (every limit then counts from zero)", path, how)
}

// check returns what is wrong with the file's content.
func (l *Ledger) check(tx *bbolt.Tx) error {
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
	if err := l.checkCredentials(tx); err != nil {
		return err
	}
	for found := range tx.Check() { // to its end: it waits for whoever listens
		err = errors.Join(err, found)
	}
	return err
}

// checkPages holds that no page reaches into what is not the file's.
func checkPages(tx *bbolt.Tx) error {
	pages := int(tx.Size() / int64(tx.DB().Info().PageSize))
	for id := 0; id < pages; {
		page, err := tx.Page(id)
		if err != nil {
			return err
		}
		next := id + 1
		if page.Type != "free" { // what a free one says is out of date
			next += page.OverflowCount
		}
		if next > pages {
			return fmt.Errorf("page %d of %d goes on to page %d", id, pages, next-1)
		}
		id = next
	}
	return nil
}

// checkCredentials reads all that the file has, and holds that it has all that it
// should. What the newest entries are is known from then on.
func (l *Ledger) checkCredentials(tx *bbolt.Tx) error {
	names, err := credentialsOf(tx)
	if err != nil {
		return err
	}
	for _, name := range names {
		newest, err := openBuckets(tx, name).check()
		if err != nil {
			return fmt.Errorf("credential %q: %w", name, err)
		}
		l.account(name).newest.Store(newest.Ms)
	}
	return nil
}

// A faultError is what bbolt made of a damaged file, or the kernel of one that ends
// too soon.
type faultError struct{ cause any }

func (e *faultError) Error() string { return fmt.Sprint(e.cause) }

// guard calls f and makes an error of a fault.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &faultError{r}
		}
	}()
	return f()
}

// use calls f unless the file has become unusable, which it is from the first fault
// on: what bbolt holds locked then is never let go.
func (l *Ledger) use(f func() error) error {
	if broken := l.broken.Load(); broken != nil {
		return *broken
	}
	err := guard(f)
	if fault := (&faultError{}); errors.As(err, &fault) {
		err = fmt.Errorf("%w: ledger %q was damaged while quotad had it open, restart quotad: %w", quota.ErrOutcomeUnknown, l.db.Path(), fault)
		l.noteWrite(err)
		later := fmt.Errorf("%w: %w", quota.ErrUnavailable, fault)
		l.broken.Store(&later)
	}
	return err
}

// view has f read the file.
func (l *Ledger) view(f func(*bbolt.Tx) error) error {
	err := l.use(func() error {
		if err := l.displaced(); err != nil {
			return err
		}
		return l.db.View(f)
	})
	if err != nil && !errors.Is(err, quota.ErrUnavailable) && !errors.Is(err, quota.ErrOutcomeUnknown) {
		err = fmt.Errorf("cannot read ledger: %w: %w", quota.ErrUnavailable, err)
	}
	return err
}

// trimStep bounds how many entries one transaction deletes, so that a day that
// expires at once keeps nobody waiting.
const trimStep = 1000

// commit makes a batch durable, and deletes what no window needs any more. After an
// error the file is as it was, unless even that is unknown.
func (l *Ledger) commit(b *batch) error {
	return l.use(func() error {
		if err := l.displaced(); err != nil {
			return err
		}
		tx, err := l.db.Begin(true)
		if err != nil {
			return fmt.Errorf("cannot write ledger: %w: %w", quota.ErrUnavailable, err)
		}
		defer tx.Rollback()
		if err := b.put(tx); err != nil {
			return fmt.Errorf("cannot write ledger: %w: %w", quota.ErrUnavailable, err)
		}
		transaction := tx.ID() // it has none when it has ended
		if err := tx.Commit(); err != nil {
			return l.commitError(b, err)
		}
		// Where that cannot be written, it takes nothing from what the ledger has.
		l.noteWrite(l.notePosition(transaction))
		return nil
	})
}

// notePosition writes down how far the ledger went, as far as that is sure to be on disk.
func (l *Ledger) notePosition(transaction int) error {
	if l.unsynced {
		transaction = 0
	}
	return l.position.write(transaction)
}

// commitError tells a transaction that was not carried out from one of which nobody
// knows.
func (l *Ledger) commitError(b *batch, err error) error {
	kind := quota.ErrOutcomeUnknown
	_ = l.db.View(func(tx *bbolt.Tx) error {
		if openBuckets(tx, b.credential.Name).last() == b.last {
			kind = quota.ErrUnavailable
		}
		return nil
	})
	return fmt.Errorf("cannot write ledger: %w: %w", kind, err)
}

// put writes a batch.
func (b *batch) put(tx *bbolt.Tx) error {
	if b.emptied {
		if err := dropBuckets(tx, b.credential.Name); err != nil {
			return err
		}
	}
	file, err := createBuckets(tx, b.credential.Name)
	if err != nil {
		return err
	}
	for _, c := range b.changed {
		if err := file.put(&c.Is); err != nil {
			return err
		}
	}
	for i := range b.entries {
		if err := file.put(&b.entries[i]); err != nil {
			return err
		}
	}
	if b.closes {
		if err := file.putClosed(b.state.Closed); err != nil {
			return err
		}
	}
	n := 0
	if b.trimmed, n, err = file.trim(b.state.Expired(), trimStep); err != nil {
		return err
	}
	return file.count(len(b.entries)-n, b.trimmed.Ms)
}

// displaced is an error when the ledger's path does not lead to the open file any
// more, or that is shorter than it was: what it is granted now would be forgotten at
// the next start.
func (l *Ledger) displaced() error {
	now, err := os.Stat(l.db.Path())
	switch {
	case err != nil || !os.SameFile(now, l.file):
		return fmt.Errorf("ledger %q was moved, removed or replaced while quotad had it open: move it back, or restart quotad to go on with what is there now: %w",
			l.db.Path(), quota.ErrUnavailable)
	case now.Size() < l.file.Size():
		return fmt.Errorf("ledger %q was cut short while quotad had it open: restore it from a backup: %w", l.db.Path(), quota.ErrUnavailable)
	}
	return nil
}
