package page

import (
	"fmt"
	"strings"
	"time"

	"quotad/quota"
)

// The size of a curve's plot in pixels. It is as wide as there is room.
const (
	plotHeight = 170
	plotWidth  = 1000 // of the box that is stretched to the room there is
	plotTop    = 18   // above it
	plotBelow  = 20   // for the names of the hours
	eventTop   = 12   // of the name of the first event
	eventRow   = 14   // for each further one
)

// A curveView is a curve in the form that the template draws.
type curveView struct {
	Label                        string // for readers who cannot see it
	Width, Height, Top, Total    int
	Held, Line, Ahead, Pace      string // paths
	AheadArea                    string
	Now, NowAnchor               string
	UnitsY, BudgetY, ReserveTall string
	UnitsText, BudgetText        string
	HoursTop, HoursY             int
	Ticks                        []tick
	Events                       []event
}

// An event is a vertical line with a name, which has a row of its own above the plot.
type event struct {
	X, Text, Anchor, Class string
	Y                      int
}

// viewOfCurve returns nil for a limit without a curve.
func viewOfCurve(p Picture, credential string, l Limit) *curveView {
	c := l.Curve
	if c == nil {
		return nil
	}
	x := axis{c.From, c.Until, p.Zone}
	y := scale{maxOf(l), plotHeight}
	budget := l.Units - l.Reserve
	events := eventsOf(p, x, c)
	top := plotTop + eventRow*max(0, len(events)-1)
	v := &curveView{
		Label: curveLabel(credential, l), Events: events,
		Width: plotWidth, Height: plotHeight, Top: top, Total: top + plotHeight + plotBelow, HoursTop: top + plotHeight, HoursY: top + plotHeight + 14,
		Line: path(x, y, c.Held), Ahead: path(x, y, c.Ahead), Held: area(x, y, c.Held), AheadArea: area(x, y, c.Ahead),
		Pace:   path(x, y, []Point{{c.From, 0}, {c.Full, budget}}),
		UnitsY: pixels(float64(top) + y.y(l.Units)), BudgetY: pixels(float64(top) + y.y(budget)), ReserveTall: pixels(y.y(budget) - y.y(l.Units)),
		UnitsText: quota.Thousands(l.Units), Now: x.percent(c.Now), NowAnchor: x.anchor(c.Now), Ticks: x.ticksBut(c.Now),
	}
	if l.Reserve > 0 {
		v.BudgetText = quota.Thousands(budget) + " for jobs"
	}
	return v
}

func maxOf(l Limit) int64 {
	units := max(1, l.Units)
	for _, list := range [][]Point{l.Curve.Held, l.Curve.Ahead} {
		for _, point := range list {
			units = max(units, point.Units)
		}
	}
	return units
}

// eventsOf names what the forecast comes to.
func eventsOf(p Picture, x axis, c *Curve) []event {
	var list []event
	add := func(at time.Time, what, class string) {
		if !at.IsZero() && !at.Before(x.from) && !at.After(x.until) {
			list = append(list, event{x.percent(at), what + " " + at.In(p.Zone).Format("15:04"), anchorAt(x, at), class, eventTop + len(list)*eventRow})
		}
	}
	add(c.DryAt, "runs dry", "dry")
	add(c.OpensAt, "opens", "reset")
	add(c.ResetsAt, "resets", "reset")
	return list
}

// anchorAt keeps a text beside its line and within the plot.
func anchorAt(x axis, at time.Time) string {
	if x.part(at) > 0.5 {
		return "end"
	}
	return "start"
}

// path draws points as a line.
func path(x axis, y scale, points []Point) string {
	var b strings.Builder
	for i, p := range points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", command, plotWidth*x.part(p.At), y.y(p.Units))
	}
	return b.String()
}

// area draws what is below points.
func area(x axis, y scale, points []Point) string {
	if len(points) == 0 {
		return ""
	}
	first, last := points[0], points[len(points)-1]
	return fmt.Sprintf("%sL%.1f %dL%.1f %dZ", path(x, y, points), plotWidth*x.part(last.At), plotHeight, plotWidth*x.part(first.At), plotHeight)
}

// curveLabel says what a curve shows.
func curveLabel(credential string, l Limit) string {
	text := fmt.Sprintf("limit %s of %s: %s of %s used", l.Name, credential, quota.Thousands(l.Used), quota.Thousands(l.Units))
	if l.Forecast.Text != "" {
		text += "; the schedule " + l.Forecast.Text
	}
	return text
}
