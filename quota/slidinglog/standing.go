package slidinglog

import (
	"slices"
	"time"

	"quotad/quota"
)

// A mark is an entry that closes or opens a limit, or lends to it.
type mark struct {
	ID       quota.ID
	Kind     quota.Kind
	Limit    string
	Units    quota.Units // of a loan
	Until    time.Time   // not of an opening
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

// overrides reports whether a mark of the same limit counts no more: a closing or an opening before a
// later one, and a loan before an end of loans.
func (m mark) overrides(earlier mark) bool {
	loan := earlier.Kind == quota.KindLoan
	return m.Limit == earlier.Limit && earlier.ID.Less(m.ID) && loan == (m.Kind == quota.KindLoan) && (!loan || m.Units == 0)
}

// limits returns the closed limits and the loans at a time, in ms.
func (f *facts) limits(now int64) (closed map[string]quota.Closed, lent map[string][]quota.Lent) {
	if len(f.Standing) == 0 { // the usual case, for every record
		return nil, nil
	}
	closed, lent = make(map[string]quota.Closed), make(map[string][]quota.Lent)
	for _, m := range f.Standing {
		switch {
		case m.Until.UnixMilli() <= now: // or an opening
		case m.Kind == quota.KindClosing:
			closed[m.Limit] = quota.Closed{Since: m.ID.Time(), Until: m.Until, Says: m.Note, By: m.By}
		case m.Units > 0:
			lent[m.Limit] = append(lent[m.Limit], quota.Lent{Units: m.Units, Since: m.ID.Time(), Until: m.Until, Note: m.Note, By: m.By})
		}
	}
	return closed, lent
}

// standing returns the ids of the entries that close limits, or lend to them, at a time, in ms, of an
// end of loans until the last of them would have ended, and of resets that are older than entries which
// they void, because the clock was set back. They are kept even if no window holds them.
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

// forgetLoans drops loans that have ended and expired.
func (f *facts) forgetLoans(now int64) {
	f.Standing = slices.DeleteFunc(f.Standing, func(m mark) bool {
		return m.Units > 0 && !f.Expired.Less(m.ID) && m.Until.UnixMilli() <= now
	})
}
