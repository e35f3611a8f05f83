package slidinglog

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"quotad/quota"
)

const (
	// maxUnfolded bounds the rows that a copy has in memory only. Reading a log, and putting entries back,
	// wait for a fold when there are more. More rows in one fold write fewer pages in all.
	maxUnfolded = 20_000
	// servingFolds is how many times as many a host that serves may have: one fold runs while others write.
	servingFolds = 10
)

// Fold writes the changes of all copies to their tables.
func (l *Ledger) Fold() error {
	l.folding.Lock()
	defer l.folding.Unlock()
	l.gate.Lock()
	l.config.File.Cut()
	l.gate.Unlock()
	snapshots := make(map[*replica]*snapshot)
	for _, r := range l.all() {
		r.mu.Lock()
		var err error
		if r.copy.stamp != r.copy.written {
			err = r.copy.view(func() { snapshots[r] = r.copy.snapshot() })
		}
		r.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if len(snapshots) == 0 {
		return nil
	}
	var changes []TableChange
	for _, s := range snapshots {
		changes = append(changes, s.encode())
	}
	if err := l.config.File.Fold(changes); err != nil {
		return err
	}
	for r, s := range snapshots {
		r.mu.Lock()
		r.copy.folded(s.stamp)
		r.mu.Unlock()
	}
	return nil
}

// foldMany folds if the copy has some times as many rows in memory only as it should.
func (r *replica) foldMany(times int) error {
	r.mu.Lock()
	many := len(r.copy.entries)+len(r.copy.rows) > times*r.ledger.maxUnfolded
	r.mu.Unlock()
	if !many {
		return nil
	}
	return r.unavailable(r.ledger.Fold())
}

// replay applies the frames that no fold has covered to the copies.
func (l *Ledger) replay() error {
	return l.config.File.Tail(func(credential string, b []byte) error {
		r, err := l.replica(credential)
		if err != nil {
			return err
		}
		f, kind, p := codec{reading: true, b: b}, byte(0), Placed{}
		f.byte(&kind)
		f.id(&p.At)
		p.Body = f.b
		record, err := decodeRecord(p)
		if f.failed || err != nil {
			return errRecord
		}
		return r.copy.view(func() {
			switch {
			case l.config.Store != nil:
				r.copy.restore(&record, kind == framePlaced)
			case r.copy.facts.Position.ID.Less(p.At) || record.Gen > r.copy.facts.Gen:
				r.copy.apply(&record)
			}
		})
	})
}

// restore adds a record of this host's tail to the copy. Reading the log shows later whether it
// has the record.
func (c *Copy) restore(r *Record, stamped bool) {
	for _, e := range r.Entries {
		if e.Gen == quota.Unplaced && stamped {
			e.Gen = r.Gen
		}
		c.putOffline(e)
	}
	c.refresh()
}

// A snapshot is what a fold writes. Its entries never change.
type snapshot struct {
	change  TableChange
	entries []stamped[*quota.Entry]
	stamp   uint64
}

// snapshot returns the changes to be written to the tables, as of the copy's stamp.
func (c *Copy) snapshot() *snapshot {
	s := &snapshot{change: TableChange{Credential: c.name, Empty: c.emptied > 0}}
	c.trim(&s.change, expireStep+2*len(c.entries))
	for row, changed := range c.rows {
		s.change.Rows = append(s.change.Rows, Row{row.table, []byte(row.key), changed.value})
	}
	oldest := c.oldest()
	c.facts.Dangling = slices.DeleteFunc(c.facts.Dangling, func(l dangling) bool { return l.Of.Ms <= oldest })
	c.facts.Offline = slices.DeleteFunc(c.facts.Offline, func(g offlineGrant) bool { return g.ID.Ms <= oldest })
	maps.DeleteFunc(c.facts.Hosts, func(_ HostID, h hostFacts) bool { return h.Last <= oldest })
	s.change.Facts = c.facts.encode()
	s.entries, s.stamp = slices.Clone(c.entries), c.stamp
	return s
}

// encode returns the change with all rows in the order of their keys: a table that gets many new rows
// in another order moves half of the rows of a page for each.
func (s *snapshot) encode() TableChange {
	for _, e := range s.entries {
		s.change.Rows = append(s.change.Rows, Row{EntryTable, idKey(e.value.ID), encode(e.value)})
	}
	slices.SortFunc(s.change.Rows, func(x, y Row) int {
		return cmp.Or(cmp.Compare(x.Table, y.Table), bytes.Compare(x.Key, y.Key))
	})
	return s.change
}

// trim deletes expired entries from the tables, up to max.
func (c *Copy) trim(change *TableChange, max int) {
	for id, value := range c.ids(EntryTable, quota.ID{}, false) {
		if c.facts.Expired.Less(id) || len(change.Rows) == max {
			return
		}
		if !c.expired(id) {
			continue
		}
		e, ok := c.decode(id, value)
		if !ok {
			return
		}
		g, _ := e.Grant()
		if ids := c.named(g.Key); slices.Contains(ids, id) {
			c.setName(g.Key, slices.DeleteFunc(ids, func(other quota.ID) bool { return other == id }))
		}
		if c.facts.Unplaced > 0 {
			c.mark(&e, false)
		}
		if i, changed := c.changed(id); changed {
			c.entries = slices.Delete(c.entries, i, i+1)
		}
		change.Rows = append(change.Rows, Row{EntryTable, idKey(id), nil})
	}
}

// folded drops the changes up to a stamp from memory: the tables have them.
func (c *Copy) folded(stamp uint64) {
	c.entries = slices.DeleteFunc(c.entries, func(e stamped[*quota.Entry]) bool { return e.stamp <= stamp })
	maps.DeleteFunc(c.rows, func(_ rowKey, row stamped[[]byte]) bool { return row.stamp <= stamp })
	if c.written = stamp; c.emptied <= stamp {
		c.emptied = 0
	}
}
