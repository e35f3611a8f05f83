package page

import (
	"fmt"

	"quotad/quota"
)

// The size of a day's lanes, in pixels: a name is above its bars.
const (
	laneHeight = 34
	laneName   = 12 // the baseline of the name
	laneTop    = 17 // of the bars
	barHeight  = 13
	dayBelow   = 20
)

// A dayView is a day as it is drawn.
type dayView struct {
	Day
	Label                  string
	Height, Bottom, HoursY int
	BarHeight              int
	Ticks                  []tick
	Views                  []laneView // of Lanes
}

type laneView struct {
	NameY, BarY, SkipY int
	Job, Text          string
	Bars, Skips        []barView
}

// A barView is a run, or ticks that did not become one.
type barView struct {
	X, Width, Class, Title string
}

func viewOfDay(p Picture) dayView {
	x := axis{p.Day.From, p.Day.Until, p.Zone}
	bottom := len(p.Day.Lanes) * laneHeight
	v := dayView{Day: p.Day, Height: bottom + dayBelow, Bottom: bottom, HoursY: bottom + 14, BarHeight: barHeight, Ticks: x.ticks()}
	runs := 0
	for i, lane := range p.Day.Lanes {
		top := i * laneHeight
		v.Views = append(v.Views, laneView{
			NameY: top + laneName, BarY: top + laneTop, SkipY: top + laneTop + barHeight/2, Job: lane.Job, Text: lane.Text,
			Bars: viewsOfBars(x, lane.Runs), Skips: viewsOfBars(x, lane.Skips),
		})
		runs += len(lane.Runs)
	}
	v.Label = fmt.Sprintf("%s of %s in the last day", quota.Count(runs, "run", "runs"), quota.Count(len(p.Day.Lanes), "job", "jobs"))
	return v
}

// viewsOfBars keeps a bar that is wider than it lasted within the day.
func viewsOfBars(x axis, bars []Bar) (views []barView) {
	for _, bar := range bars {
		left := percentOf(min(x.part(bar.From), 1-minWidth))
		views = append(views, barView{left, x.width(bar.From, bar.To), tone(bar.Style), bar.Title})
	}
	return views
}
