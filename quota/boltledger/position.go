package boltledger

import (
	"errors"
	"fmt"
	"os"
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
	if p == nil {
		return nil
	}
	_, err := p.file.WriteAt(fmt.Appendf(nil, positionFormat, p.id, transaction), 0)
	if err != nil {
		return fmt.Errorf("cannot write the ledger's position: %w", err)
	}
	return nil
}

func (p *position) close() error { return p.file.Close() }

// errUnexpected says that the ledger is not the one that was here.
func errUnexpected(path, how string) error {
	return fmt.Errorf("ledger %q %s, which would grant again what was spent: restore the right one, or start once with --accept-new-ledger to go on with this one", path, how)
}

// expect compares the ledger that is there with the one that was.
func (l *Ledger) expect(config Config, isNew bool) error {
	p, id, written, ok, err := openPosition(config.Path + ".position")
	if err != nil {
		return err
	}
	own, transaction, err := l.identity()
	if err == nil && !config.AcceptNew {
		switch {
		case isNew && (ok || config.History):
			err = errUnexpected(config.Path, "is missing, though there has been one")
		case ok && id != own:
			err = errUnexpected(config.Path, "is not the one that was here")
		case ok && transaction < written:
			err = errUnexpected(config.Path, "is older than it was")
		}
	}
	if err != nil {
		return errors.Join(err, p.close())
	}
	p.id = own
	l.position = p
	return p.write(transaction)
}
