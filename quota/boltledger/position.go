package boltledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// A position is a line in a file beside the ledger that says which ledger this is and how
// far it went: the last transaction, and the last frame of the tail. It is written after
// they are sure to be on disk and not synced: after a crash of the machine it may lag, and
// never leads.
type position struct {
	file *os.File
	id   string // of the ledger

	mu          sync.Mutex // guards what follows; held while it is written
	transaction int
	seq         uint64
	failing     error // why it could not be written last; nil when it could
}

const positionFormat = "%32s %020d %020d\n"

// readPosition reads the position beside a ledger. Its id is empty where it says nothing yet.
func readPosition(ledger string) (*position, error) {
	text, err := os.ReadFile(ledger + ".position")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the ledger's position: %w", err)
	}
	p := new(position)
	fmt.Sscanf(string(text), positionFormat, &p.id, &p.transaction, &p.seq)
	return p, nil
}

// open opens the file and writes it. A ledger that root has accepted is the right one from then on.
func (p *position) open(ledger string) (err error) {
	if p.file, err = os.OpenFile(ledger+".position", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("cannot open the ledger's position: %w", err)
	}
	if p.flush(); p.failing != nil {
		return nil // a full disk is no reason not to read the ledger
	}
	if err := os.Remove(acceptPath(ledger)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot remove what accepts the ledger: %w", err)
	}
	return nil
}

// write records that a transaction and a frame are on disk, 0 for none. If it fails, the ledger
// itself lacks nothing.
func (p *position) write(transaction int, seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if transaction <= p.transaction && seq <= p.seq {
		return
	}
	p.transaction, p.seq = max(p.transaction, transaction), max(p.seq, seq)
	p.flush()
}

func (p *position) flush() {
	_, err := p.file.WriteAt(fmt.Appendf(nil, positionFormat, p.id, p.transaction, p.seq), 0)
	if p.failing = err; err != nil {
		p.failing = fmt.Errorf("cannot write the ledger's position: %w", err)
	}
}

// health returns why the last write failed, nil if it did not.
func (p *position) health() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failing
}

func (p *position) close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}

// errUnexpected says that the ledger is not the one that was here.
func errUnexpected(path, how string) error {
	return fmt.Errorf("ledger %q %s, and what was spent would be granted again: restore the right one; or, to accept this one, start once with --accept-new-ledger, or create the empty file %q as root, which the next start removes",
		path, how, acceptPath(path))
}

// AcceptName is an empty file of root, beside the ledger, that says what Config.AcceptNew
// does, to the next start alone.
const AcceptName = "accept-new-ledger"

// FirstHere is what is new about a ledger where there has been none.
const FirstHere = "is the first one here"

func acceptPath(path string) string { return filepath.Join(filepath.Dir(path), AcceptName) }

// acceptedByRoot reports whether root has made that file. Jobs may be processes of our own user,
// which could make one, or put another file of root in its place.
func acceptedByRoot(path string) bool {
	info, err := os.Lstat(acceptPath(path))
	if err != nil || !info.Mode().IsRegular() || info.Size() > 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0 && stat.Nlink == 1
}

// compare returns what is new about the ledger that is there, compared with the one before. It is an
// error unless AcceptNew is set.
func (c Config) compare(isNew bool, is identity, last uint64, was *position) (how string, err error) {
	switch {
	case isNew && was.id == "" && !c.History:
		return FirstHere, nil
	case isNew:
		how = "is missing, though there has been one"
	case was.id != "" && is.id != was.id:
		how = "is not the one that was here"
	case is.transaction < was.transaction:
		how = "is older than it was"
	case was.id != "" && last < was.seq:
		how = "lacks the end of its tail, in the files .tail0 and .tail1 next to it"
	default:
		return "", nil
	}
	if !c.AcceptNew {
		err = errUnexpected(c.Path, how)
	}
	return how, err
}
