package slidinglog

import (
	"slices"

	"quotad/quota"
)

// stand keeps an entry that closes or opens a limit, or lends to it, and drops those that it
// overrides. Entries may come in any order, and twice.
func (f *facts) stand(e quota.Entry) {
	if slices.ContainsFunc(f.Standing, func(o quota.Entry) bool { return o.ID == e.ID || overrides(&o, &e) }) {
		return
	}
	f.Standing = slices.DeleteFunc(f.Standing, func(o quota.Entry) bool { return overrides(&e, &o) })
	f.Standing = append(f.Standing, e)
	slices.SortFunc(f.Standing, func(x, y quota.Entry) int { return x.ID.Compare(y.ID) })
}

// overrides reports whether an entry of its limit counts no more: a closing or an opening before a
// later one, and a loan before an end of loans.
func overrides(later, earlier *quota.Entry) bool {
	loan := earlier.Kind == quota.KindLoan
	return later.Limit == earlier.Limit && earlier.ID.Less(later.ID) &&
		loan == (later.Kind == quota.KindLoan) && (!loan || later.Units == 0)
}

// limits returns the closed limits and the loans at a time, in ms.
func (f *facts) limits(now int64) (closed map[string]quota.Closed, lent map[string][]quota.Lent) {
	if len(f.Standing) == 0 { // the usual case, for every record
		return nil, nil
	}
	closed, lent = make(map[string]quota.Closed), make(map[string][]quota.Lent)
	for _, e := range f.Standing {
		switch {
		case e.Until.UnixMilli() <= now: // or an opening
		case e.Kind == quota.KindClosing:
			closed[e.Limit] = e.Closed()
		case e.Units > 0:
			lent[e.Limit] = append(lent[e.Limit], e.Lent())
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
	for _, e := range c.facts.Standing {
		if e.Until.UnixMilli() > now {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// forgetLoans drops loans that have ended and expired.
func (f *facts) forgetLoans(now int64) {
	f.Standing = slices.DeleteFunc(f.Standing, func(e quota.Entry) bool {
		return e.Kind == quota.KindLoan && e.Units > 0 && !f.Expired.Less(e.ID) && e.Until.UnixMilli() <= now
	})
}
