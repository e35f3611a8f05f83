package jobs

import (
	"cmp"
	"slices"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// An asker is a job as a limit sees it.
type asker struct {
	job    *Job
	units  quota.Units // of a pass
	period time.Duration
	ticks  []tick
}

// A tick is a slot with the time until the next one.
type tick struct {
	slot   time.Time
	period time.Duration
	cut    bool // there are more, which were not looked at
}

// ticksOf returns the first ticks of a schedule after from and before until, up
// to most but at least one.
func ticksOf(s Schedule, from, until time.Time, most int) []tick {
	var ticks []tick
	for slot := s.Next(from); ; {
		next := s.Next(slot)
		ticks = append(ticks, tick{slot: slot, period: max(0, next.Sub(slot)), cut: len(ticks)+1 >= most && next.Before(until)})
		if next.IsZero() || !next.Before(until) || len(ticks) >= most {
			return ticks
		}
		slot = next
	}
}

// isWhole tells whether runs are counted whole, at their slots. Where a window is
// shorter than the time between two slots, it counts which passes come together.
func (a *asker) isWhole(w quota.Window) bool { return a.period <= lengthOf(w) }

// parts is how many claims there are for one run.
func (a *asker) parts(w quota.Window) int {
	if a.isWhole(w) {
		return 1
	}
	return len(a.job.Regions)
}

// edges returns what the job asks for until an instant: when it comes, and when it
// leaves the window, each in the order of time.
//
// With slips, a run that is counted whole holds its units from its slot until a
// window after its last pass: a pass may come late and those behind it all at
// once, or the whole run a moment early. That puts the runs of n+1 slots into a
// window that has room for n.
func (a *asker) edges(w quota.Window, until time.Time, slips bool) (come, leave []edge) {
	parts := a.parts(w)
	passes := len(a.job.Regions) / parts
	units := mulDiv(a.units, quota.Units(passes), 1)
	come, leave = make([]edge, 0, parts*len(a.ticks)), make([]edge, 0, parts*len(a.ticks))
	for _, t := range a.ticks {
		if !t.slot.Before(until) {
			break
		}
		stagger := a.job.staggerWithin(t.period, len(a.job.Regions))
		for i := range parts {
			start := regions.Start(t.slot, stagger, i)
			come = append(come, edge{start.UnixMilli(), units})
			leave = append(leave, edge{leaves(w, start, time.Duration(passes-1)*stagger, slips), -units})
		}
	}
	sortEdges(come) // hardly anything to do: only very uneven schedules come out of order
	sortEdges(leave)
	return come, leave
}

// leaves returns the first millisecond at which a window does not count any more
// what was spent from start on, for as long as spread with slips.
func leaves(w quota.Window, start time.Time, spread time.Duration, slips bool) int64 {
	if _, end := w.Bounds(start); !end.IsZero() {
		return end.UnixMilli()
	}
	if !slips {
		return start.Add(w.Length).UnixMilli()
	}
	return start.Add(spread+w.Length).UnixMilli() + 1
}

// An edge is an instant at which what a window holds changes.
type edge struct {
	at    int64       // in milliseconds since the Unix epoch
	units quota.Units // below zero, they leave
}

func sortEdges(list []edge) {
	slices.SortFunc(list, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
}

// negate turns edges into those that take them away again.
func negate(list []edge) {
	for i := range list {
		list[i].units = -list[i].units
	}
}

// peak returns the most that is held at once by what the lists add up to, each in
// the order of time; at most MaxUnits.
func peak(lists ...[]edge) quota.Units {
	var held, most quota.Units
	for at, more := earliest(lists); more && most < quota.MaxUnits; at, more = earliest(lists) {
		for i, list := range lists {
			n := 0
			for ; n < len(list) && list[n].at == at; n++ {
				held += list[n].units
			}
			lists[i] = list[n:]
		}
		most = max(most, held)
	}
	return min(most, quota.MaxUnits)
}

func earliest(lists [][]edge) (at int64, more bool) {
	for _, list := range lists {
		if len(list) > 0 && (!more || list[0].at < at) {
			at, more = list[0].at, true
		}
	}
	return at, more
}
