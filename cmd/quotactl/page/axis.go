package page

import (
	"strconv"
	"time"
)

// An axis is a span of time from left to right.
type axis struct {
	From, Until time.Time
	zone        *time.Location
}

// part is the place of an instant, from 0 to 1.
func (a axis) part(at time.Time) float64 {
	whole := a.Until.Sub(a.From)
	if whole <= 0 {
		return 0
	}
	return min(1, max(0, float64(at.Sub(a.From))/float64(whole)))
}

// Percent is the place of an instant, in the form that SVG reads.
func (a axis) Percent(at time.Time) string { return percentOf(a.part(at)) }

// width is the width of a span, at least wide enough to be seen.
func (a axis) width(from, to time.Time) string {
	return percentOf(max(minWidth, a.part(to)-a.part(from)))
}

const minWidth = 0.004

func percentOf(part float64) string { return strconv.FormatFloat(100*part, 'f', 2, 64) + "%" }

// A tick names a time below an axis.
type tick struct {
	part    float64
	X, Text string
	Anchor  string // of the text: at an edge it stays within
	Minor   bool   // a telephone has no room for it
}

// How many ticks fit on a telephone, and on a wide screen.
const (
	fewTicks  = 5
	manyTicks = 13
)

// Ticks are times that people like to read: full hours, midnights.
func (a axis) Ticks() []tick {
	step, major := a.step(manyTicks), map[time.Time]bool{}
	for _, at := range a.times(a.step(fewTicks)) {
		major[at] = true
	}
	var list []tick
	for _, at := range a.times(step) {
		t := tick{a.part(at), a.Percent(at), a.name(at), a.Anchor(at), !major[at]}
		if n := len(list); n == 0 || list[n-1].Anchor != "start" || t.part-list[n-1].part >= nearby || !t.Minor {
			list = append(list, t)
		}
	}
	return list
}

const nearby = 0.11

// Anchor keeps a text at an edge within it.
func (a axis) Anchor(at time.Time) string {
	switch part := a.part(at); {
	case part < 0.05:
		return "start"
	case part > 0.95:
		return "end"
	}
	return "middle"
}

// step is the shortest step with at most max ticks.
func (a axis) step(max int) time.Duration {
	const day = 24 * time.Hour
	for _, step := range []time.Duration{15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 7 * day} {
		if a.Until.Sub(a.From) <= time.Duration(max)*step {
			return step
		}
	}
	return 28 * day
}

// times are the instants a whole number of steps after midnight, by the clock of the zone.
// A time that a clock skips when it is set forward is not among them.
func (a axis) times(step time.Duration) []time.Time {
	const day = 24 * time.Hour
	year, month, date := a.From.In(a.zone).Date()
	var list []time.Time
	for ; ; date += max(1, int(step/day)) {
		for clock := time.Duration(0); clock < day; clock += min(step, day) {
			at := time.Date(year, month, date, 0, int(clock/time.Minute), 0, 0, a.zone)
			switch exists := at.Hour()*60+at.Minute() == int(clock/time.Minute); {
			case !at.Before(a.Until):
				return list
			case exists && !at.Before(a.From):
				list = append(list, at)
			}
		}
	}
}

func (a axis) name(at time.Time) string {
	if at.Hour() == 0 && at.Minute() == 0 {
		return at.Format("Mon 2")
	}
	return at.Format("15:04")
}
