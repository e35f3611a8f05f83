package slidinglog

import (
	"maps"
	"slices"
	"time"

	"quotad/quota"
)

// A closing is the newest closing or opening of a limit, by its own time.
type closing struct {
	ID           quota.ID
	quota.Closed // zero: an opening
}

// A lending has the loans of a limit.
type lending struct {
	Loans []loan // in the order of their ids; some may have ended
	// Ended ends older loans. It is kept until EndedTo, when the last of them would have ended.
	Ended   quota.ID
	EndedTo time.Time
}

// A loan is an entry that raises a limit.
type loan struct {
	ID quota.ID
	quota.Lent
}

// close records a closing or an opening, unless there is a newer one.
func (f *facts) close(e *quota.Entry) {
	if !e.ID.Less(f.Closed[e.Limit].ID) {
		f.Closed[e.Limit] = closing{e.ID, e.Closed()}
	}
}

// lend records a loan, or an end of loans. Entries may come in any order, and twice.
func (f *facts) lend(e *quota.Entry) {
	l := f.Lent[e.Limit]
	i, known := slices.BinarySearchFunc(l.Loans, e.ID, func(l loan, id quota.ID) int { return l.ID.Compare(id) })
	switch {
	case !l.Ended.Less(e.ID):
	case e.Units == 0:
		l.Ended, l.EndedTo, l.Loans = e.ID, e.Until, l.Loans[i:]
	case !known:
		l.Loans = slices.Insert(l.Loans, i, loan{e.ID, e.Lent()})
	}
	f.Lent[e.Limit] = l
}

// limits returns the closed limits and the loans at a time, in ms.
func (f *facts) limits(now int64) (closed map[string]quota.Closed, lent map[string][]quota.Lent) {
	if len(f.Closed)+len(f.Lent) == 0 { // the usual case, for every record
		return nil, nil
	}
	closed, lent = make(map[string]quota.Closed), make(map[string][]quota.Lent)
	for name, k := range f.Closed {
		if k.Since = k.ID.Time(); k.Until.UnixMilli() > now {
			closed[name] = k.Closed
		}
	}
	for name, l := range f.Lent {
		for _, one := range l.Loans {
			if one.Since = one.ID.Time(); one.Until.UnixMilli() > now {
				lent[name] = append(lent[name], one.Lent)
			}
		}
	}
	return closed, lent
}

// standing returns the ids of the entries that close limits, or lend to them, at a time, in ms, and of
// resets that are older than entries which they void, because the clock was set back. They are kept
// even if no window holds them.
func (c *Copy) standing(now int64) (ids []quota.ID) {
	f := &c.facts
	for _, v := range f.Resets {
		if v.By.Ms < v.To && v.To > now-c.keep().Milliseconds() {
			ids = append(ids, v.By)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Closed)) {
		if k := f.Closed[name]; k.Until.UnixMilli() > now {
			ids = append(ids, k.ID)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Lent)) {
		l := f.Lent[name]
		if l.EndedTo.UnixMilli() > now {
			ids = append(ids, l.Ended)
		}
		for _, one := range l.Loans {
			if one.Until.UnixMilli() > now {
				ids = append(ids, one.ID)
			}
		}
	}
	return ids
}

// forgetLoans drops loans that have ended and expired.
func (f *facts) forgetLoans(now int64) {
	for name, l := range f.Lent {
		l.Loans = slices.DeleteFunc(l.Loans, func(o loan) bool { return !f.Expired.Less(o.ID) && o.Until.UnixMilli() <= now })
		f.Lent[name] = l
	}
}
