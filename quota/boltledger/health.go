package boltledger

import (
	"context"

	"quotad/quota"
)

// Health implements quota.Reader. Whether the file can be written is known from
// the last time that it was.
func (l *Ledger) Health(context.Context) quota.Health {
	h := quota.Health{Backend: "embedded", State: "ok", Reachable: true}
	if l.unsynced {
		h.Warnings = append(h.Warnings, "sync is off: a crash of the machine loses the grants of the last seconds")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing != nil {
		h.State, h.Reachable = l.failing.Error(), false
	}
	return h
}

// noteWrite takes in what became of a write.
func (l *Ledger) noteWrite(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing = err
}
