package boltledger

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"quotad/quota"
)

// Health implements quota.Ledger. Whether the file can be written is known from
// the last time that it was.
func (l *Ledger) Health(context.Context) quota.Health {
	h := quota.Health{Backend: "embedded", State: "ok", Reachable: true}
	if l.unsynced {
		h.Warnings = append(h.Warnings, "sync is off: a crash of the machine loses the grants of the last seconds")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(l.displaced(), l.failing); err != nil {
		h.State, h.Reachable = err.Error(), false
	}
	return h
}

// displaced is an error when the ledger's path does not lead to the open file any
// more: what it is granted now would be forgotten at the next start.
func (l *Ledger) displaced() error {
	if now, err := os.Stat(l.db.Path()); err == nil && os.SameFile(now, l.file) {
		return nil
	}
	return fmt.Errorf("ledger %q was moved, removed or replaced while quotad had it open: move it back, or restart quotad to go on with what is there now: %w",
		l.db.Path(), quota.ErrUnavailable)
}

// noteWrite takes in what became of a write.
func (l *Ledger) noteWrite(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing = err
}
