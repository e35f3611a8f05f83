package slidinglog

import (
	"math"
	"slices"

	"quotad/quota"
)

// put adds an entry to the set. placed means that the log has it.
func (c *Copy) put(e quota.Entry, placed bool) {
	if c.facts.voids(&e) {
		if have, found := c.entry(e.ID); found { // the log had it before the reset
			have.Gen = e.Gen
			c.set(have)
			c.rebuild(c.originals(quota.ID{}))
		}
		return
	}
	kind := e.Kind()
	standing := kind == quota.KindClosing || kind == quota.KindReset && c.facts.renews(&e)
	if c.expired(e.ID) && !standing {
		return
	}
	c.expires = min(c.expires, e.ID.Ms)
	if have, found := c.entry(e.ID); found {
		if placed {
			c.markPlaced(have, e.Gen)
		}
		return
	}
	switch b := e.Body.(type) {
	case quota.Reset:
		c.reset(&e)
	case quota.Changed:
		if b.Change != formerLoan {
			c.facts.stand(mark{e.ID, b.Change, b.Limit, b.Until, e.Note, e.By})
		}
	}
	c.facts.Newest = max(c.facts.Newest, e.Gen)
	c.set(e)
	c.account.Add(&e)
	if !placed {
		c.mark(&e, true)
	}
	if g, ok := e.Grant(); ok && g.Key != "" {
		c.addGrant(g.Key, e.ID)
	}
	c.correct(&e)
}

// markPlaced records that the log has an entry of the set.
func (c *Copy) markPlaced(e quota.Entry, gen int64) {
	c.mark(&e, false)
	if e.Gen == quota.Unplaced {
		e.Gen = gen
		c.facts.Newest = max(c.facts.Newest, gen)
		c.set(e)
	}
}

// reset voids the entries of lower generations.
func (c *Copy) reset(by *quota.Entry) {
	if !c.facts.renew(by) {
		return
	}
	from := quota.ID{Ms: voidingOf(by).To, Seq: math.MaxInt64}
	if c.facts.Newest >= by.Gen || len(c.facts.Resets) > 1 { // there may be older entries that it does not void
		from = quota.ID{}
	}
	kept, lacking := c.originals(from)
	c.facts.Since, c.facts.Expired, c.expires, c.facts.Hole = 0, quota.ID{}, math.MaxInt64, 0
	c.rebuild(kept, lacking)
}

// originals returns the entries after an id that are not void, and all that the log lacks, without
// corrections and merges, which follow again when the entries are put again. lacking reports for
// each whether the log lacks it.
func (c *Copy) originals(from quota.ID) (kept []quota.Entry, lacking map[quota.ID]bool) {
	lacking = make(map[quota.ID]bool)
	add := func(e quota.Entry) {
		if _, has := lacking[e.ID]; has || c.facts.voids(&e) {
			return
		}
		lacking[e.ID] = c.marked(e.ID)
		kept = append(kept, original(&e))
	}
	for e := range c.all(from, false) {
		add(e)
	}
	for _, e := range c.unplaced(quota.ID{}, c.facts.Unplaced) {
		add(e)
	}
	slices.SortFunc(kept, func(x, y quota.Entry) int { return x.ID.Compare(y.ID) })
	return kept, lacking
}

// rebuild replaces the set by entries.
func (c *Copy) rebuild(kept []quota.Entry, lacking map[quota.ID]bool) {
	clear(c.rows)
	c.entries, c.tables = nil, noTables{}
	c.emptied = c.change()
	c.account.views = nil
	c.facts.Unplaced, c.facts.Missing, c.facts.Dangling, c.facts.Standing = 0, 0, nil, nil
	c.refresh()
	for _, e := range kept {
		c.put(e, !lacking[e.ID])
	}
}

// addGrant gives a new grant the key of its request. If a window held it with another grant of that request, before or
// after it, they are one.
func (c *Copy) addGrant(key string, id quota.ID) {
	ids := c.named(key)
	i, _ := slices.BinarySearchFunc(ids, id, quota.ID.Compare)
	ids = slices.Insert(ids, i, id)
	c.setName(key, ids)
	if i+1 < len(ids) {
		c.join(id, ids[i+1])
	}
	if i > 0 {
		c.join(ids[i-1], id)
	}
}

// join makes grants of one request that follow each other one charge: the later one counts for both, with the greater
// charges, and the last settlement.
func (c *Copy) join(x, y quota.ID) {
	earlier, found := c.counting(x)
	later, also := c.counting(y)
	if !found || !also || earlier.ID == later.ID || !c.overlap(x, y) {
		return
	}
	was := [...]quota.Entry{earlier, later}
	merge(&later, &earlier)
	for i, is := range [...]quota.Entry{earlier, later} {
		c.set(is)
		c.account.Change(&was[i], &is)
	}
}

// merge makes the later grant of a request count for the earlier one, too.
func merge(later, earlier *quota.Entry) {
	l, _ := later.Grant()
	e, _ := earlier.Grant()
	if l.Own == nil {
		l.Own = &quota.Granted{Count: l.Count, Charges: later.Charges}
	}
	if quota.Max(earlier.Charges) > quota.Max(later.Charges) {
		l.Count = e.Count
	}
	charges := slices.Clone(later.Charges)
	for _, charge := range earlier.Charges {
		if i := slices.IndexFunc(charges, func(c quota.Charge) bool { return c.Limit == charge.Limit }); i >= 0 {
			charges[i].Units = max(charges[i].Units, charge.Units)
		} else {
			charges = append(charges, charge)
		}
	}
	later.Charges = charges
	if e.Settled && l.SettledBy.Less(e.SettledBy) {
		l.Settled, l.SettledTo, l.SettledBy = true, e.SettledTo, e.SettledBy
	}
	for _, given := range earlier.GivenBack {
		later.GiveBack(given.Limit, given.Units)
	}
	*earlier = original(earlier)
	e, _ = earlier.Grant()
	e.Void = true
	later.Body, earlier.Body = l, e
}

// overlap reports whether any window held an id when a later one came.
func (c *Copy) overlap(x, y quota.ID) bool {
	return c.credential != nil && slices.ContainsFunc(c.credential.Limits, func(l quota.Limit) bool {
		after, _ := l.Window.Bounds(y.Time())
		return x.Ms > after.UnixMilli()
	})
}

// correct applies the corrections of an entry to others, and theirs to it.
func (c *Copy) correct(e *quota.Entry) {
	switch b := e.Body.(type) {
	case quota.Settled:
		c.applyTo(e, b.Grant)
	case quota.Adjusted:
		for _, give := range b.Gives {
			c.applyTo(e, give.Of)
		}
	}
	late := c.facts.Dangling
	c.facts.Dangling = nil
	for _, l := range late {
		if l.Of != e.ID {
			c.facts.Dangling = append(c.facts.Dangling, l)
		} else if by, found := c.entry(l.By); found {
			c.applyTo(&by, l.Of)
		}
	}
}

// applyTo applies a correction to one entry.
func (c *Copy) applyTo(by *quota.Entry, of quota.ID) {
	was, found := c.counting(of)
	if !found {
		c.facts.Dangling = append(c.facts.Dangling, dangling{By: by.ID, Of: of})
		return
	}
	is := was
	switch b := by.Body.(type) {
	case quota.Settled:
		if g, ok := is.Grant(); !ok || g.Settled && by.ID.Less(g.SettledBy) {
			return
		}
		is.Settle(b.To, by.ID)
	case quota.Adjusted:
		for _, give := range b.Gives {
			if give.Of == of {
				is.GiveBack(by.Charges[0].Limit, give.Units)
			}
		}
	}
	c.set(is)
	c.account.Change(&was, &is)
}
