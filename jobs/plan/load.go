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
	maxPasses int // if there are more, neighbours in a run are counted together

	onTime, late []events // of the load as configured
}

// A slot is one of a schedule, and the one after it.
type slot struct {
	at, next time.Time // next is zero if the schedule ends
}

// slotsOf returns the first slots of a schedule after from and before until, from one up to limit.
func slotsOf(s jobs.Schedule, from, until time.Time, limit int) []slot {
	var slots []slot
	for at := s.Next(from); ; {
		next := s.Next(at)
		slots = append(slots, slot{at, next})
		if next.IsZero() || !next.Before(until) || len(slots) >= limit {
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

// events returns when passes enter the window and, in a list of its own, when they leave it: all
// of them until an instant, and at least those of one run. A pass enters at its start. It leaves as
// if it had spent then or, if late is true, when it was over. What enters while the limit is lifted
// does not count.
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
	come.sort() // nearly sorted: only very uneven schedules are out of order
	leave.sort()
	return []events{come, leave}
}

// An expiry returns when a window stops to count what was spent, in milliseconds since the Unix
// epoch.
type expiry struct {
	window     quota.Window
	after, end int64 // the period of a calendar window that was computed last
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
	units quota.Units // below zero, they expire
}

// events are sorted by time when they are used.
type events []event

func (e events) sort() {
	slices.SortFunc(e, func(a, b event) int { return cmp.Compare(a.at, b.at) })
}

// peak returns the maximum that is held at once by the sum of the lists, without those removed. It
// stops when that exceeds enough.
func peak(enough quota.Units, removed []events, lists ...events) quota.Units {
	lists = slices.Concat(removed, lists)
	var held, highest quota.Units
	for at, more := earliest(lists); more && highest <= enough; at, more = earliest(lists) {
		for i, list := range lists {
			n := 0
			for ; n < len(list) && list[n].at == at; n++ {
				if i < len(removed) {
					held -= list[n].units
				} else {
					held += list[n].units
				}
			}
			if n > 0 {
				lists[i] = list[n:]
			}
		}
		highest = max(highest, held)
	}
	return highest
}

func earliest(lists []events) (at int64, more bool) {
	for _, list := range lists {
		if len(list) > 0 && (!more || list[0].at < at) {
			at, more = list[0].at, true
		}
	}
	return at, more
}
