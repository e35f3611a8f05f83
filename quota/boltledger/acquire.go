package boltledger

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"quotad/quota"
)

// Acquire implements quota.Ledger. What a batch grants is written in one
// transaction; a batch that grants nothing writes nothing.
func (l *Ledger) Acquire(_ context.Context, c *quota.Credential, asks []quota.Ask) ([]quota.Decision, error) {
	a, done, err := l.account(c.Name)
	if err != nil {
		return nil, err
	}
	defer done()
	b := &batch{credential: c, state: a.state.Clone(), keys: make(map[string]quota.ID)}
	decisions := make([]quota.Decision, len(asks))
	err = l.db.View(func(tx *bbolt.Tx) error {
		b.buckets = openBuckets(tx, c.Name)
		b.now = b.state.Now(l.now())
		b.state.Advance(c, b.now, b)
		for i, ask := range asks {
			if decisions[i], err = b.decide(ask); err != nil {
				return err
			}
		}
		return b.err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read ledger: %w: %w", quota.ErrUnavailable, err)
	}
	if err := l.write(a, b); err != nil {
		return nil, err
	}
	return decisions, nil
}

// Peek implements quota.Ledger.
func (l *Ledger) Peek(_ context.Context, c *quota.Credential, _ []string, charges []quota.Charge) (quota.Decision, error) {
	var d quota.Decision
	err := l.read(c, func(b *batch) {
		d = b.state.Decide(c, quota.Ask{Charges: charges}, b.now, b)
		d.Limits = b.state.States(c, charges, b.now)
	})
	return d, err
}

// A batch is what one call decides: its entries stand behind those of the file
// until they are written.
type batch struct {
	credential *quota.Credential
	state      *quota.Account
	now        time.Time
	buckets    buckets // of the reading transaction
	entries    []quota.Entry
	changed    []quota.Entry       // settled entries, to be written over
	keys       map[string]quota.ID // request keys of entries
	err        error               // of reading the log, which After cannot return
}

func (b *batch) decide(ask quota.Ask) (quota.Decision, error) {
	if key := ask.Key(); key != "" {
		r, found, err := b.granted(key)
		if err != nil {
			return quota.Decision{}, err
		}
		if found {
			return b.replay(ask, r), nil
		}
	}
	d := b.state.Decide(b.credential, ask, b.now, b)
	if d.Granted() {
		d.GrantID = quota.GrantID(b.credential.Name, b.debit(ask))
	}
	d.Limits = b.state.States(b.credential, ask.Charges, b.now)
	return d, nil
}

// granted finds the grant that a request key stands for, while it counts anywhere.
func (b *batch) granted(key string) (quota.Entry, bool, error) {
	if id, ok := b.keys[key]; ok {
		for _, r := range b.entries {
			if r.ID == id {
				return r, true, nil
			}
		}
	}
	id, ok := b.buckets.granted(key)
	if !ok || !b.state.Counted(b.credential, id) {
		return quota.Entry{}, false, nil
	}
	return b.buckets.entry(id)
}

func (b *batch) replay(ask quota.Ask, r quota.Entry) quota.Decision {
	if r.Operation != ask.Operation || r.Count != ask.Count {
		return quota.Conflict(r.Operation, r.Count)
	}
	return quota.Decision{
		GrantID:  quota.GrantID(b.credential.Name, r.ID),
		Replayed: true,
		Units:    quota.Max(ask.Charges),
		Limits:   b.state.States(b.credential, ask.Charges, b.now),
	}
}

func (b *batch) debit(ask quota.Ask) quota.ID {
	r := quota.NewEntry(ask, b.state.Next(b.now))
	b.append(r)
	return r.ID
}

func (b *batch) append(r quota.Entry) {
	b.state.Debit(b.credential, r)
	b.entries = append(b.entries, r)
	if r.Key != "" {
		b.keys[r.Key] = r.ID
	}
}

// trimStep bounds how many entries one transaction deletes, so that a day that
// expires at once keeps nobody waiting.
const trimStep = 1000

// write makes a batch durable, deletes what no window needs any more, and has the
// account continue from there. After an error the file is as it was, unless even
// that is unknown.
func (l *Ledger) write(a *account, b *batch) error {
	if len(b.entries) == 0 && len(b.changed) == 0 {
		a.state = b.state
		return nil
	}
	err := l.commit(b)
	l.noteWrite(err)
	a.state = nil
	if err == nil {
		a.state = b.state
	}
	return err
}

func (l *Ledger) commit(b *batch) error {
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
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("cannot write ledger: %w: %w", quota.ErrOutcomeUnknown, err)
	}
	return nil
}

func (b *batch) put(tx *bbolt.Tx) error {
	file, err := createBuckets(tx, b.credential.Name)
	if err != nil {
		return err
	}
	for _, r := range append(b.entries, b.changed...) {
		if err := file.put(r); err != nil {
			return err
		}
	}
	trimmed, err := file.trim(b.state.Expired(b.credential), trimStep)
	if err != nil {
		return err
	}
	if !trimmed.IsZero() {
		b.state.Trim(trimmed)
	}
	return file.putAccount(b.state)
}
