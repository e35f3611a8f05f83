package boltledger

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"quotad/quota"
)

// correct has f change the account and fill a batch, and writes it.
func (l *Ledger) correct(c *quota.Credential, f func(*batch) (quota.Decision, error)) (quota.Decision, error) {
	a, done, err := l.account(c.Name)
	if err != nil {
		return quota.Decision{}, err
	}
	defer done()
	b := &batch{credential: c, state: a.state.Clone(), keys: make(map[string]quota.ID)}
	var d quota.Decision
	err = l.db.View(func(tx *bbolt.Tx) error {
		b.buckets = openBuckets(tx, c.Name)
		b.now = b.state.Now(l.now())
		b.state.Advance(c, b.now, b)
		if d, err = f(b); err != nil {
			return err
		}
		return b.err
	})
	if err != nil {
		return quota.Decision{}, fmt.Errorf("cannot read ledger: %w: %w", quota.ErrUnavailable, err)
	}
	if d.Reason != "" {
		return d, nil
	}
	if err := l.write(a, b); err != nil {
		return quota.Decision{}, err
	}
	return d, nil
}

// Settle implements quota.Corrector.
func (l *Ledger) Settle(_ context.Context, c *quota.Credential, s quota.Settlement) (quota.Decision, error) {
	return l.correct(c, func(b *batch) (quota.Decision, error) { return b.settle(s) })
}

func (b *batch) settle(s quota.Settlement) (quota.Decision, error) {
	r, found, err := b.buckets.entry(s.Grant)
	if err != nil {
		return quota.Decision{}, err
	}
	if !found || r.Operation == "" || !b.state.Counted(b.credential, r.ID) {
		return quota.Gone(quota.GrantID(b.credential.Name, s.Grant)), nil
	}
	d := quota.Decision{GrantID: quota.GrantID(b.credential.Name, r.ID), Units: s.Units}
	if !r.Settled || r.SettledTo != s.Units {
		if err := b.state.Settle(b.credential, &r.Debit, s.Units); err != nil {
			return quota.Decision{Reason: quota.BadRequest, Detail: err.Error()}, nil
		}
		b.changed = append(b.changed, r)
		b.append(b.trace(s.Caller, quota.SettleNote(r.ID, s.Units)))
	}
	d.Limits = b.states(r)
	return d, nil
}

// states returns the limits that an entry was charged in.
func (b *batch) states(r record) []quota.LimitState {
	var charges []quota.Charge
	for i, limit := range b.credential.Limits {
		for _, recorded := range r.Recorded {
			if recorded.Limit == limit.Name {
				charges = append(charges, quota.Charge{Limit: i, Units: recorded.Units})
			}
		}
	}
	return b.state.States(b.credential, charges, b.now)
}

// trace is an entry that counts nothing and says who corrected what.
func (b *batch) trace(by quota.Caller, note string) record {
	return record{quota.Record{Debit: quota.Debit{ID: b.state.Next(b.now)}, By: by.By(), Region: by.Region, Note: note}}
}

// Adjust implements quota.Corrector.
func (l *Ledger) Adjust(_ context.Context, c *quota.Credential, adj quota.Adjustment) (quota.Decision, error) {
	return l.correct(c, func(b *batch) (quota.Decision, error) { return b.adjust(adj), nil })
}

func (b *batch) adjust(adj quota.Adjustment) quota.Decision {
	booked, err := b.state.Adjust(adj.Limit, adj.Units)
	if err != nil {
		return quota.Decision{Reason: quota.BadRequest, Detail: err.Error()}
	}
	r := b.trace(adj.Caller, quota.AdjustNote(adj, max(adj.Units, -int64(booked))))
	if adj.Units > 0 {
		r.Recorded = []quota.Recorded{{Limit: adj.Limit, Units: booked}}
	}
	b.append(r)
	d := quota.Decision{Units: booked}
	for i, limit := range b.credential.Limits {
		if limit.Name == adj.Limit {
			d.Limits = b.state.States(b.credential, []quota.Charge{{Limit: i}}, b.now)
		}
	}
	return d
}

// Reset implements quota.Corrector.
func (l *Ledger) Reset(_ context.Context, c *quota.Credential, by quota.Caller, note string) error {
	a, done, err := l.account(c.Name)
	if err != nil {
		return err
	}
	defer done()
	if err := l.displaced(); err != nil {
		return err
	}
	b := &batch{credential: c, state: a.state.Clone(), keys: make(map[string]quota.ID)}
	b.now = b.state.Now(l.now())
	b.state.Reset()
	err = l.db.Update(func(tx *bbolt.Tx) error {
		if tx.Bucket([]byte(c.Name)) != nil {
			if err := tx.DeleteBucket([]byte(c.Name)); err != nil {
				return err
			}
		}
		b.buckets = openBuckets(tx, c.Name)
		b.state.Advance(c, b.now, b)
		b.append(b.trace(by, quota.ResetNote(note)))
		return b.put(tx)
	})
	l.noteWrite(err)
	if err != nil {
		a.state = nil
		return fmt.Errorf("cannot reset ledger: %w: %w", quota.ErrOutcomeUnknown, err)
	}
	a.state = b.state
	return nil
}
