package plan

import (
	"cmp"
	"iter"
	"math"
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

// add appends an event, or counts it into the last one if they come at once.
func (e events) add(at int64, units quota.Units) events {
	if n := len(e); n > 0 && e[n-1].at == at {
		e[n-1].units = max(-quota.MaxUnits, min(quota.MaxUnits, e[n-1].units+units))
		return e
	}
	return append(e, event{at, units})
}

func (e events) sort() {
	slices.SortFunc(e, func(a, b event) int { return cmp.Compare(a.at, b.at) })
}

// negate turns events into those that take them away again.
func (e events) negate() {
	for i := range e {
		e[i].units = -e[i].units
	}
}

// together returns one event for each instant at which the lists have any.
func together(lists ...events) iter.Seq[event] {
	const never = math.MaxInt64
	return func(yield func(event) bool) {
		next := make([]int, len(lists))
		for {
			sum := event{at: never}
			for i, list := range lists {
				if next[i] < len(list) {
					sum.at = min(sum.at, list[next[i]].at)
				}
			}
			for i, list := range lists {
				for ; next[i] < len(list) && list[next[i]].at == sum.at; next[i]++ {
					sum.units += list[next[i]].units
				}
			}
			if sum.at == never || !yield(sum) {
				return
			}
		}
	}
}

// peak returns the most that is held at once by what the lists add up to. It looks
// no further once that is more than enough.
func peak(enough quota.Units, lists ...events) quota.Units {
	var held, most quota.Units
	for e := range together(lists...) {
		held += e.units
		if most = max(most, held); most > enough {
			break
		}
	}
	return most
}
