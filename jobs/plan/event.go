package plan

import (
	"cmp"
	"slices"

	"quotad/quota"
)

// An event is an instant at which what a window holds changes.
type event struct {
	at    int64       // in milliseconds since the Unix epoch
	units quota.Units // below zero, they leave
}

// events are in the order of time, once they are sorted.
type events []event

func (e events) sort() {
	slices.SortFunc(e, func(a, b event) int { return cmp.Compare(a.at, b.at) })
}

// peak returns the most that is held at once by what the lists add up to, without
// what is gone. It looks no further once that is more than enough.
func peak(enough quota.Units, gone []events, lists ...events) quota.Units {
	lists = slices.Concat(gone, lists)
	var held, most quota.Units
	for at, more := earliest(lists); more && most <= enough; at, more = earliest(lists) {
		for i, list := range lists {
			n := 0
			for ; n < len(list) && list[n].at == at; n++ {
				if i < len(gone) {
					held -= list[n].units
				} else {
					held += list[n].units
				}
			}
			if n > 0 {
				lists[i] = list[n:]
			}
		}
		most = max(most, held)
	}
	return most
}

func earliest(lists []events) (at int64, more bool) {
	for _, list := range lists {
		if len(list) > 0 && (!more || list[0].at < at) {
			at, more = list[0].at, true
		}
	}
	return at, more
}
