package main

import (
	"fmt"
	"strings"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/jobs/plan"
	"quotad/quota"
)

// A dayPlot is one line of a plot: what a limit sees in the hours of one day.
type dayPlot struct {
	day   time.Time // its midnight, or close to it
	hours [24]hourPlot
	units int64
}

// An hourPlot is one mark of it.
type hourPlot struct {
	known bool
	units int64
	lost  int
}

// plotOf draws the hours of a limit, a line for each day of the view's zone. The
// highest mark is the busiest hour; x is an hour in which turns are lost.
func plotOf(l plan.Limit, v term.View) *term.Table {
	days := daysOf(l.Hours, v.Zone)
	var busiest int64
	for _, d := range days {
		for _, h := range d.hours {
			busiest = max(busiest, h.units)
		}
	}
	wide := 1
	if v.Width >= term.DefaultWidth {
		wide = min(4, (v.Width-plotMargin)/24)
	}
	t := &term.Table{Indent: 2, Columns: []term.Column{{Head: "HOUR" + v.ZoneMark()}, {Head: scale(wide), Whole: true}, {Head: "UNITS", Right: true}}}
	for _, d := range days {
		var marks strings.Builder
		for _, h := range d.hours {
			marks.WriteString(strings.Repeat(h.mark(busiest, v), wide))
		}
		t.Add(term.Cell{Text: d.day.Format("Mon 2")}, term.Cell{Text: marks.String()}, term.Cell{Text: quota.Thousands(d.units)})
	}
	return t
}

// plotMargin is what stands beside the marks: days, units and gaps.
const plotMargin = 30

// daysOf sorts hours into days. Where a clock is set back, two hours are one mark.
func daysOf(hours []plan.Hour, zone *time.Location) []*dayPlot {
	var days []*dayPlot
	for _, h := range hours {
		at := h.At.In(zone)
		if n := len(days); n == 0 || days[n-1].day.YearDay() != at.YearDay() {
			days = append(days, &dayPlot{day: at})
		}
		d := days[len(days)-1]
		mark := &d.hours[at.Hour()]
		mark.known = true
		mark.units += int64(h.Units)
		mark.lost += h.Skipped
		d.units += int64(h.Units)
	}
	return days
}

// mark is one character for an hour.
func (h hourPlot) mark(busiest int64, v term.View) string {
	levels, none := []rune("12345678"), "."
	if v.UTF8 {
		levels, none = []rune("▁▂▃▄▅▆▇█"), "·"
	}
	switch {
	case !h.known:
		return " "
	case h.lost > 0:
		return "x"
	case h.units == 0:
		return none
	}
	return string(levels[share(h.units, busiest, len(levels))-1])
}

// scale names every sixth hour above its mark.
func scale(wide int) string {
	var b strings.Builder
	for hour := 0; hour < 24; hour += 6 {
		fmt.Fprintf(&b, "%-*s", 6*wide, fmt.Sprintf("%02d", hour))
	}
	return strings.TrimRight(b.String(), " ")
}
