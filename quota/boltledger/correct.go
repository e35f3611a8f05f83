package boltledger

import (
	"context"
	"fmt"
	"slices"

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

// Settle implements quota.Ledger.
func (l *Ledger) Settle(_ context.Context, c *quota.Credential, s quota.Settlement) (quota.Decision, error) {
	return l.correct(c, func(b *batch) (quota.Decision, error) { return b.settle(s) })
}

func (b *batch) settle(s quota.Settlement) (quota.Decision, error) {
	r, found, err := b.buckets.entry(s.Grant)
	if err != nil {
		return quota.Decision{}, err
	}
	if !found || r.Kind != quota.KindGrant || !b.state.Counted(b.credential, r.ID) {
		return quota.Gone(quota.GrantID(b.credential.Name, s.Grant)), nil
	}
	d := quota.Decision{GrantID: quota.GrantID(b.credential.Name, r.ID), Units: s.Units}
	if !r.Settled || r.SettledTo != s.Units {
		trace, err := b.state.Settle(b.credential, &r, s.Units)
		if err != nil {
			return quota.Decision{Reason: quota.BadRequest, Detail: err.Error()}, nil
		}
		b.changed = append(b.changed, r)
		b.correct(trace, s.Caller)
	}
	d.Limits = b.states(r)
	return d, nil
}

// states returns the limits that an entry was charged in.
func (b *batch) states(e quota.Entry) []quota.LimitState {
	charges := slices.DeleteFunc(slices.Clone(e.Charges), func(charge quota.Charge) bool { return b.credential.Index(charge.Limit) < 0 })
	slices.SortFunc(charges, func(x, y quota.Charge) int { return b.credential.Index(x.Limit) - b.credential.Index(y.Limit) })
	return b.state.States(b.credential, charges, b.now)
}

// correct appends the entry of a correction, and says in it who made it.
func (b *batch) correct(e quota.Entry, by quota.Caller) {
	e.ID = b.state.Next(b.now)
	e.At, e.By, e.Region = e.ID.Time(), by.By(), by.Region
	b.append(e)
}

// Adjust implements quota.Ledger.
func (l *Ledger) Adjust(_ context.Context, c *quota.Credential, adj quota.Adjustment) (quota.Decision, error) {
	return l.correct(c, func(b *batch) (quota.Decision, error) { return b.adjust(adj), nil })
}

func (b *batch) adjust(adj quota.Adjustment) quota.Decision {
	booked, err := b.state.Adjust(adj.Limit, adj.Units)
	if err != nil {
		return quota.Decision{Reason: quota.BadRequest, Detail: err.Error()}
	}
	b.correct(quota.Entry{
		Kind: quota.KindAdjustment, Note: adj.Note, Asked: adj.Units,
		Charges: []quota.Charge{{Limit: adj.Limit, Units: max(quota.Units(adj.Units), -booked)}},
	}, adj.Caller)
	return quota.Decision{Units: booked, Limits: b.state.States(b.credential, []quota.Charge{{Limit: adj.Limit}}, b.now)}
}

// Reset implements quota.Ledger.
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
		b.correct(quota.Entry{Kind: quota.KindReset, Note: note}, by)
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
