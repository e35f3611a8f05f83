package plan

import (
	"cmp"
	"slices"
	"time"

	"quotad/jobs"
	"quotad/quota"
)

// A load is what one job asks of one limit.
type load struct {
	job       *jobs.Job
	units     quota.Units // of a pass
	cost      quota.Units // of a pass, as a run counts it
	slots     []slot
	maxPasses int // so many passes: if there are more, neighbours in a run are counted together

	onTime, late []events // of the load as configured
}

// A slot is one of a schedule, and the one behind it.
type slot struct {
	at, next time.Time // next is zero if the schedule ends
}

// slotsOf returns the first slots of a schedule after from and before until, up
// to most but at least one.
func slotsOf(s jobs.Schedule, from, until time.Time, most int) []slot {
	var slots []slot
	for at := s.Next(from); ; {
		next := s.Next(at)
		slots = append(slots, slot{at, next})
		if next.IsZero() || !next.Before(until) || len(slots) >= most {
			return slots
		}
		at = next
	}
}

// shortest returns the shortest period between two of the slots; 0 if there is but one.
func (l *load) shortest() time.Duration {
	var shortest time.Duration
	for _, s := range l.slots {
		if period := s.next.Sub(s.at); !s.next.IsZero() && (shortest == 0 || period < shortest) {
			shortest = period
		}
	}
	return shortest
}

// events returns when passes come into the window and, in a list of its own, when
// they leave it: all of them until an instant, and at least those of one run. A pass comes
// at its start; it leaves as if it had spent then or, if late is true, when it was over.
// What comes while the limit is lifted is in nobody's way.
func (l *load) events(limit quota.Limit, until time.Time, late bool) []events {
	n := timetableOf(l.job, l.cost, l.slots[0].at, l.slots[0].next).passes // of every run
	together := (n*len(l.slots) + l.maxPasses - 1) / l.maxPasses
	passes := len(l.slots) * ((n + together - 1) / max(1, together))
	come, leave, leaving := make(events, 0, passes), make(events, 0, passes), expiry{window: limit.Window}
	for i, s := range l.slots {
		if i > 0 && !s.at.Before(until) { // the first run counts, however far ahead
			break
		}
		run := timetableOf(l.job, l.cost, s.at, s.next)
		for first := 0; first < n; first += together {
			last := min(first+together, n) - 1
			units := min(l.units, quota.MaxUnits/quota.Units(n)) * quota.Units(last-first+1)
			spent := run.start(first)
			if limit.LiftedAt(spent) {
				continue
			}
			come = append(come, event{spent.UnixMilli(), units})
			if late {
				spent = run.over(last)
			}
			leave = append(leave, event{leaving.at(spent.UnixMilli()), -units})
		}
	}
	come.sort() // hardly anything to do: only very uneven schedules come out of order
	leave.sort()
	return []events{come, leave}
}

// A expiry tells when a window does not count any more what was spent, in
// milliseconds since the Unix epoch.
type expiry struct {
	window     quota.Window
	after, end int64 // the period of a calendar window that was looked up last
}

// at returns the first such millisecond for what was spent at an instant.
func (l *expiry) at(spent int64) int64 {
	if !l.window.IsCalendar() {
		return spent + l.window.Length.Milliseconds()
	}
	if spent <= l.after || spent >= l.end {
		after, end := l.window.Bounds(time.UnixMilli(spent))
		l.after, l.end = after.UnixMilli(), end.UnixMilli()
	}
	return l.end
}

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
