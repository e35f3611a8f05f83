package plan

import (
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/regions"
)

// A load is what one job asks of one limit.
type load struct {
	job   *jobs.Job
	units quota.Units // of a pass
	ticks []tick
	most  int // so many passes: if there are more, neighbours in a run are counted together
}

// A tick is a slot and the one behind it.
type tick struct {
	slot, next time.Time // next is zero if the schedule ends
}

// period returns the time between the two slots; 0 if there is no other.
func (t tick) period() time.Duration {
	if t.next.IsZero() {
		return 0
	}
	return t.next.Sub(t.slot)
}

// ticksOf returns the first ticks of a schedule after from and before until, up
// to most but at least one.
func ticksOf(s jobs.Schedule, from, until time.Time, most int) []tick {
	var ticks []tick
	for slot := s.Next(from); ; {
		next := s.Next(slot)
		ticks = append(ticks, tick{slot, next})
		if next.IsZero() || !next.Before(until) || len(ticks) >= most {
			return ticks
		}
		slot = next
	}
}

// with returns the load of the job as it might be, at the same slots.
func (l *load) with(job *jobs.Job, units quota.Units) *load {
	return &load{job: job, units: units, ticks: l.ticks, most: l.most}
}

// shortest returns the shortest period between two of the ticks.
func (l *load) shortest() time.Duration {
	shortest := l.ticks[0].period()
	for _, t := range l.ticks {
		if p := t.period(); p > 0 {
			shortest = min(shortest, p)
		}
	}
	return shortest
}

// events returns what the job asks for until an instant: when it comes into the
// window, and when it leaves it, each in the order of time. If late is true, a pass
// that comes at its start leaves as if it had spent when it was over.
func (l *load) events(w quota.Window, until time.Time, late bool) (come, leave events) {
	n := len(l.job.Regions)
	together := (n*len(l.ticks) + l.most - 1) / l.most
	leaving := leaver{window: w}
	come, leave = make(events, 0, min(n*len(l.ticks), l.most)), make(events, 0, min(n*len(l.ticks), l.most))
	for _, t := range l.ticks {
		if !t.slot.Before(until) {
			break
		}
		stagger := l.job.StaggerWithin(t.period(), n)
		for first := 0; first < n; first += together {
			last := min(first+together, n) - 1
			units := mulDiv(l.units, quota.Units(last-first+1), 1)
			spent := regions.Start(t.slot, stagger, first)
			come = come.add(spent.UnixMilli(), units)
			if late {
				spent = l.over(t, stagger, last)
			}
			leave = leave.add(leaving.at(spent), -units)
		}
	}
	come.sort() // hardly anything to do: only very uneven schedules come out of order
	leave.sort()
	return come, leave
}

// over returns the last moment at which the i-th pass of a run may spend.
func (l *load) over(t tick, stagger time.Duration, i int) time.Time {
	longest := l.job.Timeout + l.job.KillGrace
	start := regions.Start(t.slot, stagger, i)
	over := start.Add(longest)
	if stagger < longest { // passes wait for one another
		over = t.slot.Add(longest * time.Duration(len(l.job.Regions)))
	}
	// More than the period, even so much more that it overflowed: runs do not overlap.
	if p := t.period(); p > 0 && (over.Before(start) || !over.Before(t.next) || longest > p) {
		return t.next.Add(-time.Millisecond)
	}
	return over
}

// A leaver tells when a window does not count any more what was spent.
type leaver struct {
	window     quota.Window
	after, end time.Time // the period of a calendar window that was looked up last
}

// at returns the first such millisecond for what was spent at an instant.
func (l *leaver) at(spent time.Time) int64 {
	if !l.window.IsCalendar() {
		return spent.UnixMilli() + l.window.Length.Milliseconds()
	}
	if !spent.After(l.after) || !spent.Before(l.end) {
		l.after, l.end = l.window.Bounds(spent)
	}
	return l.end.UnixMilli()
}
