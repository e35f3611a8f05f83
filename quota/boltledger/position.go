package boltledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// A position is a line in a file beside the ledger that says which ledger this is and
// how far it went. It is written after each transaction and not synced: after a crash
// of the machine it may lag, and never leads.
type position struct {
	file *os.File
	id   string // of the ledger
}

const positionFormat = "%32s %020d\n"

// openPosition opens the position beside a ledger, and returns what it says; ok is
// false where it says nothing yet.
func openPosition(path string) (p *position, id string, written int, ok bool, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, "", 0, false, fmt.Errorf("cannot open the ledger's position: %w", err)
	}
	_, err = fmt.Fscanf(file, positionFormat, &id, &written)
	return &position{file: file}, id, written, err == nil, nil
}

// write says that the transaction of that number is on disk.
func (p *position) write(transaction int) error {
	_, err := p.file.WriteAt(fmt.Appendf(nil, positionFormat, p.id, transaction), 0)
	if err != nil {
		return fmt.Errorf("cannot write the ledger's position: %w", err)
	}
	return nil
}

func (p *position) close() error { return p.file.Close() }

// errUnexpected says that the ledger is not the one that was here.
func errUnexpected(path, how string) error {
	return fmt.Errorf("ledger %q %s, which would grant again what was spent: restore the right one, or go on with this one by starting once with --accept-new-ledger, or beside an empty file %q of root, which the next start removes",
		path, how, acceptPath(path))
}

// acceptPath is a file that says what Config.AcceptNew does, to the next start alone.
func acceptPath(path string) string { return filepath.Join(filepath.Dir(path), "accept-new-ledger") }

// acceptedByRoot tells whether root has made that file. Jobs may be processes of our own
// user, who could make one, or find another file of root to put in its place.
func acceptedByRoot(path string) bool {
	info, err := os.Lstat(acceptPath(path))
	if err != nil || !info.Mode().IsRegular() || info.Size() > 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0 && stat.Nlink == 1
}

// takeAccepted takes the ledger for the right one from now on, if somebody said so.
func takeAccepted(path string) error {
	if err := os.Remove(acceptPath(path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot remove what accepts the ledger: %w", err)
	}
	return nil
}

// expect compares the ledger that is there with the one that was.
func (l *Ledger) expect(config Config, isNew bool) error {
	p, id, written, ok, err := openPosition(config.Path + ".position")
	if err != nil {
		return err
	}
	own, transaction, err := l.identity()
	var how string
	switch {
	case isNew && (ok || config.History):
		how = "is missing, though there has been one"
	case ok && id != own:
		how = "is not the one that was here"
	case ok && transaction < written:
		how = "is older than it was"
	}
	if err == nil && how != "" && !config.AcceptNew {
		err = errUnexpected(config.Path, how)
	}
	if err != nil {
		return errors.Join(err, p.close())
	}
	p.id = own
	l.position = p
	if isNew && how == "" {
		how = "is the first one here"
	}
	if how != "" && config.Began != nil {
		config.Began(how)
	}
	return errors.Join(l.notePosition(transaction), takeAccepted(config.Path))
}
