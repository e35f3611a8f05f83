package slidinglog

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"quotad/quota"
)

// A Copy is a host's copy of the log of one credential: a set of entries, and what follows from
// it. An entry has an id and a time of its own; the place of its record in the log does not count.
// So the sums are the same in whatever order the entries come, and however often.
//
// A copy reads its tables while a view of them is open, keeps in memory what has changed since
// they were written, and writes nothing itself. It is not safe for concurrent use.
type Copy struct {
	name       string
	file       File
	credential *quota.Credential // as this host counts it
	account    Account
	facts      facts

	tables  Tables // while a view is open
	err     error  // of reading the tables
	stamp   uint64
	entries []stamped[*quota.Entry]    // that have changed, oldest first
	rows    map[rowKey]stamped[[]byte] // of the other tables that have changed; nil: deleted
	emptied uint64                     // the stamp at which the tables became void; 0: they are valid
	written uint64                     // the stamp up to which the tables have every change
	expires int64                      // no entry is older, in ms
	newest  quota.ID                   // no entry is later: what is needs no look into the tables
}

// openCopy opens the copy of a credential's log in a file.
func openCopy(file File, name string) (*Copy, error) {
	c := &Copy{name: name, file: file, rows: make(map[rowKey]stamped[[]byte]), expires: math.MaxInt64}
	err := file.View(name, func(t Tables) (err error) {
		if c.facts, err = decodeFacts(t.Facts()); err != nil {
			return err
		}
		for key := range t.Rows(EntryTable, idKey(c.facts.Expired), false) {
			oldest, err := keyID(key)
			if c.expires = oldest.Ms; err != nil {
				return err
			}
			break
		}
		for key := range t.Rows(EntryTable, nil, true) {
			c.newest, err = keyID(key)
			break
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("credential %q: %w", name, err)
	}
	c.refresh()
	return c, nil
}

// refresh updates the account from the facts.
func (c *Copy) refresh() {
	c.account.Clock, c.account.Lost = c.facts.Position.ID.Ms, c.facts.Since
	c.account.Closed = c.facts.closed(c.account.Clock)
}

// view calls f while the tables can be read.
func (c *Copy) view(f func()) error {
	return c.file.View(c.name, func(t Tables) error {
		c.tables, c.err = t, nil
		if c.emptied > 0 {
			c.tables = noTables{}
		}
		f()
		c.tables = nil
		return c.err
	})
}

// advance advances the account to a clock, and returns its time.
func (c *Copy) advance(clock time.Time) time.Time { return c.account.Advance(c.credential, clock, c) }

// minKeep is how long an entry is needed at least, for a host without a longer window.
const minKeep = time.Minute

// keep returns how long an entry is needed, by any host.
func (c *Copy) keep() time.Duration {
	longest := minKeep
	if c.credential != nil {
		longest = max(longest, longestOf(c.credential))
	}
	for _, h := range c.facts.Hosts {
		longest = max(longest, h.keep())
	}
	return longest
}

func longestOf(c *quota.Credential) (d time.Duration) {
	for _, limit := range c.Limits {
		d = max(d, limit.Window.Span())
	}
	return d
}

// oldest returns the time, in ms, up to which no host needs entries.
func (c *Copy) oldest() int64 { return c.account.Clock - c.keep().Milliseconds() }

// expireStep bounds the entries that expire with one record, so that a whole day that expires at
// once delays no caller.
const expireStep = 1000

// expire expires entries that no host needs. Fold deletes them from the tables.
func (c *Copy) expire() {
	oldest := c.oldest()
	if c.expires > oldest || c.credential == nil {
		return
	}
	c.advance(time.UnixMilli(c.account.Clock)) // the views read the entries that leave them
	c.expires = math.MaxInt64
	n := 0
	for e := range c.all(c.facts.Expired, false) {
		if e.ID.Ms > oldest || n == expireStep {
			c.expires = e.ID.Ms
			break
		}
		c.facts.Expired = e.ID
		n++
	}
	c.facts.Since = max(c.facts.Since, c.facts.Expired.Ms)
	c.account.Lost = c.facts.Since
}

// expired reports whether an entry has expired. One that stands has not.
func (c *Copy) expired(id quota.ID) bool {
	return !c.facts.Expired.Less(id) && !slices.Contains(c.standing(c.account.Clock), id)
}

// entry returns an entry, with its corrections.
func (c *Copy) entry(id quota.ID) (e quota.Entry, found bool) {
	if c.expired(id) {
		return e, false
	}
	if i, changed := c.changed(id); changed {
		return *c.entries[i].value, true
	}
	if c.newest.Less(id) {
		return e, false
	}
	value := c.tables.Get(EntryTable, idKey(id))
	if value == nil {
		return e, false
	}
	return c.decode(id, value)
}

// decode decodes an entry of the tables.
func (c *Copy) decode(id quota.ID, value []byte) (e quota.Entry, ok bool) {
	e, err := decode(id, value)
	if err != nil {
		c.err = err
	}
	return e, err == nil
}

// ids yields the ids of a table, with their values, after one; or those before it, newest first, if
// back is set. A zero id then means all.
func (c *Copy) ids(t Table, after quota.ID, back bool) iter.Seq2[quota.ID, []byte] {
	return func(yield func(quota.ID, []byte) bool) {
		for key, value := range c.tables.Rows(t, idKey(after), back) {
			id, err := keyID(key)
			if err != nil {
				c.err = err
				return
			}
			if !yield(id, value) {
				return
			}
		}
	}
}

// get returns the value of a row of the other tables, nil if there is none.
func (c *Copy) get(t Table, key []byte) []byte {
	if changed, ok := c.rows[rowKey{t, string(key)}]; ok {
		return changed.value
	}
	return c.tables.Get(t, key)
}

// setRow sets the value of such a row; nil deletes it.
func (c *Copy) setRow(t Table, key, value []byte) {
	c.rows[rowKey{t, string(key)}] = stamped[[]byte]{value, c.change()}
}

// named returns the ids of the grants of a request key, oldest first: one, but for grants whose hosts did not know of
// each other, and for a key that is used again later.
func (c *Copy) named(key string) (ids []quota.ID) {
	for b := range slices.Chunk(c.get(NameTable, []byte(key)), idSize) {
		id, err := keyID(b)
		if err != nil {
			c.err = err
		}
		ids = append(ids, id)
	}
	return ids
}

// setName sets the ids of the grants of a request key.
func (c *Copy) setName(key string, ids []quota.ID) {
	var value []byte
	for _, id := range ids {
		value = append(value, idKey(id)...)
	}
	c.setRow(NameTable, []byte(key), value)
}

// granted returns the last grant of a request key, while it counts in any limit.
func (c *Copy) granted(key string) (quota.Entry, bool) {
	ids := c.named(key)
	if len(ids) == 0 || !c.account.Counted(ids[len(ids)-1]) {
		return quota.Entry{}, false
	}
	return c.entry(ids[len(ids)-1])
}

// counting returns the entry with an id, or the one that counts in its place.
func (c *Copy) counting(id quota.ID) (e quota.Entry, found bool) {
	e, found = c.entry(id)
	for g, _ := e.Grant(); g.Void; g, _ = e.Grant() {
		ids := c.named(g.Key)
		i, _ := slices.BinarySearchFunc(ids, e.ID, quota.ID.Compare)
		if i+1 >= len(ids) {
			return e, false
		}
		e, found = c.entry(ids[i+1])
	}
	return e, found
}

// After implements Entries.
func (c *Copy) After(id quota.ID) iter.Seq[quota.Entry] { return c.all(id, false) }

// all yields the entries after an id, oldest first; or those before it, newest first, if back is
// set. A zero id then means all.
func (c *Copy) all(after quota.ID, back bool) iter.Seq[quota.Entry] {
	if !back && after.Less(c.facts.Expired) {
		after = c.facts.Expired
	}
	i, found := c.changed(after)
	changed := c.entries[:i]
	switch {
	case !back && found:
		changed = c.entries[i+1:]
	case !back:
		changed = c.entries[i:]
	case after.IsZero():
		changed = c.entries
	}
	if back {
		changed = slices.Clone(changed)
		slices.Reverse(changed)
	}
	return func(yield func(quota.Entry) bool) {
		for id, value := range c.ids(EntryTable, after, back) {
			for len(changed) > 0 && changed[0].value.ID.Less(id) != back && changed[0].value.ID != id {
				if !yield(*changed[0].value) {
					return
				}
				changed = changed[1:]
			}
			if len(changed) > 0 && changed[0].value.ID == id {
				continue // memory has a newer version
			}
			if e, ok := c.decode(id, value); !ok || !yield(e) {
				return
			}
		}
		for _, entry := range changed {
			if !yield(*entry.value) {
				return
			}
		}
	}
}

// changed returns the index of an entry in memory, or of the next one.
func (c *Copy) changed(id quota.ID) (i int, found bool) {
	return slices.BinarySearchFunc(c.entries, id, func(e stamped[*quota.Entry], id quota.ID) int { return e.value.ID.Compare(id) })
}

// set adds or replaces an entry.
func (c *Copy) set(e quota.Entry) {
	i, changed := c.changed(e.ID)
	if !changed {
		c.entries = slices.Insert(c.entries, i, stamped[*quota.Entry]{})
	}
	c.entries[i] = stamped[*quota.Entry]{&e, c.change()}
	if c.newest.Less(e.ID) {
		c.newest = e.ID
	}
}

// marked reports whether the log lacks an entry.
func (c *Copy) marked(id quota.ID) bool { return c.get(MarkTable, idKey(id)) != nil }

// mark records that the log lacks an entry, or has it.
func (c *Copy) mark(e *quota.Entry, lacks bool) {
	if c.marked(e.ID) == lacks {
		return
	}
	n, value := 1, []byte{}
	if !lacks {
		n, value = -1, nil
	}
	c.facts.Unplaced += n
	if e.Gen != quota.Unplaced {
		c.facts.Missing += n
	}
	c.setRow(MarkTable, idKey(e.ID), value)
}

// unplaced returns up to max of the entries after an id that the log lacks, oldest first.
func (c *Copy) unplaced(after quota.ID, max int) (list []quota.Entry) {
	var ids []quota.ID
	for id := range c.ids(MarkTable, after, false) {
		if !c.marked(id) {
			continue
		}
		if ids = append(ids, id); len(ids) == max {
			break
		}
	}
	for row, mark := range c.rows {
		if row.table != MarkTable || mark.value == nil {
			continue
		}
		if id, err := keyID([]byte(row.key)); err == nil && after.Less(id) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, quota.ID.Compare)
	for _, id := range slices.Compact(ids) {
		if len(list) == max {
			break
		}
		if e, found := c.entry(id); found {
			list = append(list, e)
		}
	}
	return list
}

// apply applies the next record of the log.
func (c *Copy) apply(r *Record) {
	c.facts.record(r)
	for _, e := range r.Entries {
		if e.Gen == quota.Unplaced {
			e.Gen = r.Gen
		}
		c.put(e, true)
	}
	c.facts.Position = Position{ID: r.at.At, Tag: r.Tag}
	c.change()
	c.refresh()
	c.expire()
}

// change returns the stamp of a new change.
func (c *Copy) change() uint64 {
	c.stamp++
	return c.stamp
}

// page returns a page of the log.
func (c *Copy) page(q quota.LogQuery) (page quota.LogPage) {
	from := q.After
	if first := q.Since.UnixMilli(); !q.Newest && !q.Since.IsZero() && from.Ms < first {
		from = quota.ID{Ms: first - 1, Seq: math.MaxInt64} // skip older entries
	}
	for e := range c.all(from, q.Newest) {
		if e.ID.Time().Before(q.Since) || !c.facts.Expired.Less(e.ID) {
			return page
		}
		if len(page.Entries) == q.Max {
			page.Next = page.Entries[q.Max-1].ID
			return page
		}
		if g, _ := e.Grant(); g.Key != "" {
			if g.Void {
				counted, _ := c.counting(e.ID)
				g.Counted = counted.ID
			}
			g.Key = ""
			e.Body = g
		}
		page.Entries = append(page.Entries, e)
	}
	return page
}

// A stamped value has changed since the last fold. The end of a fold drops just the changes that it
// wrote.
type stamped[V any] struct {
	value V
	stamp uint64
}

// A rowKey names a row.
type rowKey struct {
	table Table
	key   string
}

// noTables are empty tables.
type noTables struct{}

func (noTables) Get(Table, []byte) []byte { return nil }
func (noTables) Rows(Table, []byte, bool) iter.Seq2[[]byte, []byte] {
	return func(func([]byte, []byte) bool) {}
}
func (noTables) Facts() []byte { return nil }
