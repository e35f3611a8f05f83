package plan

import (
	"math"
	"time"

	"quotad/jobs"
	"quotad/quota"
)

// A load is what one job asks of one limit.
type load struct {
	job    *jobs.Job
	units  quota.Units // of a pass
	served int         // regions of a run: those for which its own units are enough
	ticks  []tick
	most   int // so many passes: if there are more, neighbours in a run are counted together

	onTime, late []events // of the load as configured
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

// ms returns the milliseconds since the Unix epoch so long after the slot.
func (t tick) ms(after time.Duration) int64 {
	return (t.slot.UnixNano() + int64(after)) / int64(time.Millisecond)
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

// events returns when passes come into the window and, in a list of its own, when
// they leave it: all of them until an instant, and at least those of one run. A pass comes at its start; it leaves as if it had spent then or, if
// late is true, when it was over.
func (l *load) events(w quota.Window, until time.Time, late bool) []events {
	n := l.served
	together := (n*len(l.ticks) + l.most - 1) / l.most
	passes := len(l.ticks) * ((n + together - 1) / together)
	come, leave, leaving := make(events, 0, passes), make(events, 0, passes), leaver{window: w}
	for i, t := range l.ticks {
		if i > 0 && !t.slot.Before(until) { // the first run counts, however far ahead
			break
		}
		stagger := l.job.StaggerWithin(t.period(), len(l.job.Regions))
		for first := 0; first < n; first += together {
			last := min(first+together, n) - 1
			units := min(l.units, quota.MaxUnits/quota.Units(n)) * quota.Units(last-first+1)
			spent := time.Duration(first) * stagger
			come = append(come, event{t.ms(spent), units})
			if late {
				spent = l.over(t.period(), stagger, last)
			}
			leave = append(leave, event{leaving.at(t.ms(spent)), -units})
		}
	}
	come.sort() // hardly anything to do: only very uneven schedules come out of order
	leave.sort()
	return []events{come, leave}
}

// over returns how long after the slot the i-th pass of a run may still spend. A
// period of 0 has no end.
func (l *load) over(period, stagger time.Duration, i int) time.Duration {
	longest, n := l.job.Timeout+l.job.KillGrace, time.Duration(len(l.job.Regions))
	before := time.Duration(math.MaxInt64) // the next slot: runs do not overlap
	if period > 0 {
		before = period - time.Millisecond
	}
	switch {
	case stagger >= longest:
		return min(time.Duration(i)*stagger+longest, before)
	case longest > before/n:
		return before
	}
	return n * longest // passes wait for one another
}

// A leaver tells when a window does not count any more what was spent, in
// milliseconds since the Unix epoch.
type leaver struct {
	window     quota.Window
	after, end int64 // the period of a calendar window that was looked up last
}

// at returns the first such millisecond for what was spent at an instant.
func (l *leaver) at(spent int64) int64 {
	if !l.window.IsCalendar() {
		return spent + l.window.Length.Milliseconds()
	}
	if spent <= l.after || spent >= l.end {
		after, end := l.window.Bounds(time.UnixMilli(spent))
		l.after, l.end = after.UnixMilli(), end.UnixMilli()
	}
	return l.end
}
