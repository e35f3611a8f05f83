package boltledger

import (
	"errors"
	"fmt"
	"io"
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

// An identity says which ledger there is and how far it went; the zero value says nothing.
type identity struct {
	id          string
	transaction int
}

func positionPath(path string) string { return path + ".position" }

// openPosition opens the position beside a ledger, and returns what it says.
func openPosition(path string) (*position, identity, error) {
	file, err := os.OpenFile(positionPath(path), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, identity{}, fmt.Errorf("cannot open the ledger's position: %w", err)
	}
	return &position{file: file}, parseIdentity(file), nil
}

func parseIdentity(r io.Reader) (p identity) {
	if _, err := fmt.Fscanf(r, positionFormat, &p.id, &p.transaction); err != nil {
		return identity{}
	}
	return p
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

// AcceptName is an empty file of root, beside the ledger, that says what Config.AcceptNew
// does, to the next start alone.
const AcceptName = "accept-new-ledger"

func acceptPath(path string) string { return filepath.Join(filepath.Dir(path), AcceptName) }

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
	p, was, err := openPosition(config.Path)
	if err != nil {
		return err
	}
	is, err := l.identity()
	how := ""
	if err == nil {
		how, err = config.compare(isNew, is, was)
	}
	if err != nil {
		return errors.Join(err, p.close())
	}
	p.id = is.id
	l.position = p
	if err := l.notePosition(is.transaction); err != nil {
		l.noteWrite(err) // a full disk is no reason not to read the ledger
	} else if err := takeAccepted(config.Path); err != nil {
		return errors.Join(err, p.close())
	}
	if how != "" && config.Began != nil {
		config.Began(how)
	}
	return nil
}

// compare returns what is new about the ledger that is there, by what was before; an error
// where nobody accepts that.
func (c Config) compare(isNew bool, is, was identity) (how string, err error) {
	switch {
	case isNew && was.id == "" && !c.History:
		return "is the first one here", nil
	case isNew:
		how = "is missing, though there has been one"
	case was.id != "" && is.id != was.id:
		how = "is not the one that was here"
	case is.transaction < was.transaction:
		how = "is older than it was"
	default:
		return "", nil
	}
	if !c.AcceptNew {
		err = errUnexpected(c.Path, how)
	}
	return how, err
}
