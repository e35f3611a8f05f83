package slidinglog

import (
	"slices"
	"time"

	"quotad/quota"
)

// A mark is an entry that closes or opens a limit.
type mark struct {
	ID       quota.ID
	Kind     quota.Kind
	Limit    string
	Until    time.Time // not of an opening
	Note, By string
}

// stand keeps a mark, and drops those that it overrides. Marks may come in any order, and twice.
func (f *facts) stand(m mark) {
	if slices.ContainsFunc(f.Standing, func(o mark) bool { return o.ID == m.ID || o.overrides(m) }) {
		return
	}
	f.Standing = slices.DeleteFunc(f.Standing, m.overrides)
	f.Standing = append(f.Standing, m)
	slices.SortFunc(f.Standing, func(x, y mark) int { return x.ID.Compare(y.ID) })
}

// overrides reports whether a mark of the same limit counts no more: one before a later one.
func (m mark) overrides(earlier mark) bool { return m.Limit == earlier.Limit && earlier.ID.Less(m.ID) }

// closed returns the closed limits at a time, in ms.
func (f *facts) closed(now int64) map[string]quota.Closed {
	if len(f.Standing) == 0 { // the usual case, for every record
		return nil
	}
	closed := make(map[string]quota.Closed)
	for _, m := range f.Standing {
		if m.Kind == quota.KindClosing && m.Until.UnixMilli() > now {
			closed[m.Limit] = quota.Closed{Since: m.ID.Time(), Until: m.Until, Says: m.Note, By: m.By}
		}
	}
	return closed
}

// standing returns the ids of the entries that close limits at a time, in ms, and of resets that are
// older than entries which they void, because the clock was set back. They are kept even if no window
// holds them.
func (c *Copy) standing(now int64) (ids []quota.ID) {
	for _, v := range c.facts.Resets {
		if v.By.Ms < v.To && v.To > now-c.keep().Milliseconds() {
			ids = append(ids, v.By)
		}
	}
	for _, m := range c.facts.Standing {
		if m.Until.UnixMilli() > now {
			ids = append(ids, m.ID)
		}
	}
	return ids
}
