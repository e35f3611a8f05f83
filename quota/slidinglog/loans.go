package slidinglog

import (
	"maps"
	"slices"
	"time"

	"quotad/quota"
)

// A lending is a limit's loans, as entries of the log say.
type lending struct {
	Loans []loan // in the order of their ids; also those whose time has come
	// Ended ends what is older, and is kept until EndedTo: what it ended would have run until then.
	Ended   quota.ID
	EndedTo time.Time
}

// A loan is an entry that makes a limit higher.
type loan struct {
	ID    quota.ID
	Units quota.Units
	Until time.Time
	Note  string
	By    string
}

func (l loan) compare(id quota.ID) int { return l.ID.Compare(id) }

// lend records a loan, or an end of loans. Entries may come in any order, and twice.
func (l lending) lend(e *quota.Entry) lending {
	loans := slices.Clone(l.Loans)
	i, known := slices.BinarySearchFunc(loans, e.ID, loan.compare)
	switch {
	case e.Units == 0 && l.Ended.Less(e.ID):
		l.Ended, l.EndedTo = e.ID, e.Until
		loans = loans[i:]
	case e.Units > 0 && !known && l.Ended.Less(e.ID):
		loans = slices.Insert(loans, i, loan{ID: e.ID, Units: e.Units, Until: e.Until, Note: e.Note, By: e.By})
	}
	l.Loans = loans
	return l
}

// lent returns the loans that run at a time, in ms, by limit.
func (f *facts) lent(now int64) map[string][]quota.Lent {
	var lent map[string][]quota.Lent
	for name, l := range f.Lent {
		for _, one := range l.Loans {
			if one.Until.UnixMilli() <= now {
				continue
			}
			if lent == nil {
				lent = make(map[string][]quota.Lent)
			}
			lent[name] = append(lent[name], quota.Lent{Units: one.Units, Since: one.ID.Time(), Until: one.Until, Note: one.Note, By: one.By})
		}
	}
	return lent
}

// says reports whether an entry says how a limit is closed, or lent to, at a time, in ms.
func (f *facts) says(id quota.ID, now int64) bool {
	for _, held := range f.Closed {
		if held.ID == id {
			return held.Until.UnixMilli() > now
		}
	}
	for _, l := range f.Lent {
		if l.Ended == id {
			return l.EndedTo.UnixMilli() > now
		}
		i, found := slices.BinarySearchFunc(l.Loans, id, loan.compare)
		if found {
			return l.Loans[i].Until.UnixMilli() > now
		}
	}
	return false
}

// standing returns the entries that say so: they are kept although no window holds them any
// more.
func (f *facts) standing(now int64) (ids []quota.ID) {
	for _, name := range slices.Sorted(maps.Keys(f.Closed)) {
		if held := f.Closed[name]; held.Until.UnixMilli() > now {
			ids = append(ids, held.ID)
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

// forgetLoans drops the loans that are over and in no window any more.
func (f *facts) forgetLoans(now int64) {
	for name, l := range f.Lent {
		l.Loans = slices.DeleteFunc(slices.Clone(l.Loans), func(o loan) bool { return !f.Expired.Less(o.ID) && o.Until.UnixMilli() <= now })
		f.Lent[name] = l
	}
}
