package page

import (
	"fmt"

	"quotad/quota"
)

// The size of a day's lanes, in pixels: a name stands on its bars.
const (
	laneHeight = 20
	laneName   = 13
	laneTop    = 2 // of the bars
	barHeight  = 14
	dayBelow   = 20
)

// A dayView is a day as it is drawn.
type dayView struct {
	Label                  string
	Height, Bottom, HoursY int
	BarHeight              int
	Ticks                  []tick
	Lanes                  []laneView
	Error, Note            string
}

type laneView struct {
	NameY, BarY, SkipY int
	Job, Text          string
	Bars               []barView
	Skips              []barView
}

// A barView is a run, or ticks that did not become one.
type barView struct {
	X, Width, Class, Title string
}

func viewOfDay(p Picture) dayView {
	d := p.Day
	x := axis{d.From, d.Until, p.Zone}
	bottom := len(d.Lanes) * laneHeight
	v := dayView{
		Height: bottom + dayBelow, Bottom: bottom, HoursY: bottom + 14, BarHeight: barHeight,
		Ticks: x.ticks(), Error: d.Error, Note: d.Note,
	}
	runs := 0
	for i, lane := range d.Lanes {
		top := i * laneHeight
		l := laneView{NameY: top + laneName, BarY: top + laneTop, SkipY: top + laneTop + barHeight/2, Job: lane.Job, Text: lane.Text}
		for _, bar := range lane.Runs {
			l.Bars = append(l.Bars, barView{startOf(x, bar), x.width(bar.From, bar.To), tone(bar.Style), bar.Title})
		}
		for _, skip := range lane.Skips {
			l.Skips = append(l.Skips, barView{X: x.percent(skip.From), Width: x.width(skip.From, skip.To), Title: skip.Title})
		}
		runs += len(lane.Runs)
		v.Lanes = append(v.Lanes, l)
	}
	v.Label = fmt.Sprintf("%s of %s in the last day", quota.Count(runs, "run", "runs"), quota.Count(len(d.Lanes), "job", "jobs"))
	return v
}

// startOf keeps a bar that is wider than it lasted within the day.
func startOf(x axis, bar Bar) string {
	return percentOf(min(x.part(bar.From), 1-thinnest))
}
