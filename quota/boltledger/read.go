package boltledger

import (
	"context"
	"fmt"
	"math"

	"go.etcd.io/bbolt"

	"quotad/quota"
)

// read has f read a credential's account as of now, on a copy that agrees with
// its view of the file: deciders wait for the copy, not for f.
func (l *Ledger) read(c *quota.Credential, f func(*batch)) error {
	a, done, err := l.account(c.Name)
	if err != nil {
		return err
	}
	b := &batch{credential: c, state: a.state.Clone()}
	tx, err := l.db.Begin(false)
	done()
	if err != nil {
		return fmt.Errorf("cannot read ledger: %w: %w", quota.ErrUnavailable, err)
	}
	defer tx.Rollback()
	b.buckets = openBuckets(tx, c.Name)
	b.now = b.state.Now(l.now())
	b.state.Advance(c, b.now, b)
	f(b)
	if b.err != nil {
		return fmt.Errorf("cannot read ledger: %w: %w", quota.ErrUnavailable, b.err)
	}
	return nil
}

// Usage implements quota.Ledger.
func (l *Ledger) Usage(_ context.Context, c *quota.Credential) (quota.Usage, error) {
	var u quota.Usage
	err := l.read(c, func(b *batch) {
		u.Now = b.now
		for i := range c.Limits {
			u.Limits = append(u.Limits, b.state.State(c, i, b.now, b))
		}
	})
	return u, err
}

// Log implements quota.Ledger.
func (l *Ledger) Log(_ context.Context, c *quota.Credential, q quota.LogQuery) (quota.LogPage, error) {
	var page quota.LogPage
	from := q.After
	if first := (quota.ID{Ms: q.Since.UnixMilli()}); !q.Newest && !q.Since.IsZero() && from.Less(first) {
		from = quota.ID{Ms: first.Ms - 1, Seq: math.MaxInt64} // nothing before is read
	}
	err := l.db.View(func(tx *bbolt.Tx) error {
		for r, err := range openBuckets(tx, c.Name).records(from, q.Newest) {
			if err != nil {
				return err
			}
			if r.ID.Time().Before(q.Since) {
				if q.Newest {
					return nil
				}
				continue
			}
			if len(page.Entries) == q.Most {
				page.Next = page.Entries[q.Most-1].ID
				return nil
			}
			r.Key = ""
			page.Entries = append(page.Entries, r)
		}
		return nil
	})
	if err != nil {
		return quota.LogPage{}, fmt.Errorf("cannot read ledger: %w: %w", quota.ErrUnavailable, err)
	}
	return page, nil
}
