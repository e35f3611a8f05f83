package slidinglog

import (
	"maps"
	"slices"

	"quotad/quota"
)

// Fold writes the changes of all copies to their tables.
func (l *Ledger) Fold() error {
	l.folding.Lock()
	defer l.folding.Unlock()
	l.gate.Lock()
	l.config.File.Cut()
	l.gate.Unlock()
	var changes []TableChange
	stamps := make(map[*replica]uint64)
	for _, r := range l.all() {
		r.mu.Lock()
		var err error
		if r.copy.stamp != r.copy.written {
			err = r.copy.view(func() {
				changes = append(changes, r.copy.snapshot())
				stamps[r] = r.copy.stamp
			})
		}
		r.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if len(changes) == 0 {
		return nil
	}
	if err := l.config.File.Fold(changes); err != nil {
		return err
	}
	for r, stamp := range stamps {
		r.mu.Lock()
		r.copy.folded(stamp)
		r.mu.Unlock()
	}
	return nil
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

// snapshot returns the changes to be written to the tables, as of the copy's stamp.
func (c *Copy) snapshot() TableChange {
	change := TableChange{Credential: c.name, Empty: c.emptied > 0}
	c.trim(&change, expireStep+2*len(c.entries))
	for _, e := range c.entries {
		change.Rows = append(change.Rows, Row{EntryTable, idKey(e.value.ID), encode(e.value)})
	}
	for row, changed := range c.rows {
		change.Rows = append(change.Rows, Row{row.table, []byte(row.key), changed.value})
	}
	oldest := c.oldest()
	c.facts.Loose = slices.DeleteFunc(c.facts.Loose, func(l loose) bool { return l.Of.Ms <= oldest })
	c.facts.Away = slices.DeleteFunc(c.facts.Away, func(g offlineGrant) bool { return g.ID.Ms <= oldest })
	maps.DeleteFunc(c.facts.Hosts, func(_ HostID, h hostFacts) bool { return h.Last <= oldest })
	change.Facts = c.facts.encode()
	return change
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
		if named, ok := c.named(e.Key); ok && named == id {
			c.setRow(NameTable, []byte(e.Key), nil)
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
