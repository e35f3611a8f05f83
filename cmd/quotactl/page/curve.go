package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

// A Curve is what a limit's window holds over time, before and after now. Its methods are
// for page.html, which draws it.
type Curve struct {
	axis
	Why      string // there is no curve
	Label    string // for readers who cannot see it
	Limit    api.Limit
	Now      time.Time
	Held     []Point   // what the window holds now, by when it was spent; the last is at Now
	Ahead    []Point   // a straight line from Now until it is used up; none if it is not, or as the schedule explains
	max      int64     // the most of the limit and of these
	full     time.Time // when the budget is gone if it is spent evenly from the beginning
	dryAt    time.Time // when it is used up; zero: it is not
	opensAt  time.Time // when the limit, which is closed, opens; zero: it is open
	resetsAt time.Time // when all units come back; zero: they come back one by one
}

// A Point is how many units a limit holds at a time.
type Point struct {
	At    time.Time
	Units int64
}

// minChart is the shortest window for which hours are fine enough, and maxAhead how far it looks ahead.
const (
	minChart = 2 * time.Hour
	maxAhead = 24 * time.Hour
)

// curveOf returns what a limit's window holds, by when it was spent, and how it is used up at the rate of the last hour;
// or why there is no such curve.
func curveOf(l api.Limit, spent Usage, rate plan.Rate, now time.Time) Curve {
	length := slidingWindow(l)
	sliding := length > 0
	from, known := spent.Windows[l.Name]
	resets := time.Time{}
	if l.NextUnitsAt != nil {
		resets = *l.NextUnitsAt
	}
	switch {
	case sliding && length < minChart:
		return Curve{Why: "no chart: the window is shorter than two hours"}
	case spent.Err != nil:
		return Curve{Why: "no chart: the spending of each hour cannot be read: " + spent.Err.Error()}
	case !known || !sliding && resets.IsZero():
		return Curve{Why: "no curve: when its window began is not known"}
	}
	c := Curve{axis: axis{From: from, Until: resets}, Limit: l, Now: now, full: resets, resetsAt: resets, dryAt: rate.GoneAt}
	if sliding {
		c.Until, c.full, c.resetsAt = now.Add(min(length, maxAhead)), now, time.Time{}
	}
	if l.Closed != nil {
		c.opensAt = l.Closed.Until
	}
	held := heldSpans(spent.Usage, l.Name, from)
	c.Held = heldPoints(held, from, spent.Until, Point{At: now, Units: l.Used})
	if !c.dryAt.IsZero() {
		c.Ahead = []Point{{now, l.Used}, {c.dryAt, max(l.Used, c.Budget())}}
	}
	c.max = max(1, l.Units)
	for _, point := range slices.Concat(c.Held, c.Ahead) {
		c.max = max(c.max, point.Units)
	}
	return c
}

// slidingWindow is the length of a limit's window, 0 if it does not slide.
func slidingWindow(l api.Limit) time.Duration { return time.Duration(l.WindowMs) * time.Millisecond }

// A span is units that are spent evenly from one time to another.
type span struct {
	from, to time.Time
	units    int64
}

// heldSpans are the hours of a usage: of the first and the last one, the part that counts.
func heldSpans(u api.Usage, limit string, from time.Time) (spans []span) {
	for _, s := range u.Shares {
		if began, err := time.Parse(time.RFC3339, s.Name); err == nil {
			spans = append(spans, span{quota.Later(began, from), quota.Earlier(began.Add(time.Hour), u.Until), s.Limits[limit]})
		}
	}
	slices.SortFunc(spans, func(x, y span) int { return x.from.Compare(y.from) })
	return spans
}

// heldPoints adds up what was spent up to the time of the answer, and ends with what is used
// now.
func heldPoints(held []span, from, until time.Time, now Point) []Point {
	points := []Point{{At: from}}
	var sum int64
	add := func(at time.Time) {
		if at.After(points[len(points)-1].At) && at.Before(now.At) {
			points = append(points, Point{At: at, Units: sum})
		}
	}
	for _, s := range held {
		add(s.from)
		sum += s.units
		add(s.to)
	}
	add(until)
	return append(points, now)
}

// The size of a curve's plot in pixels. It is as wide as there is room.
const (
	plotHeight = 170
	plotWidth  = 1000 // of the box that is stretched to the room there is
	plotTop    = 18   // above it
	plotBelow  = 20   // for the names of the hours
	eventTop   = 12   // of the name of the first event
	eventRow   = 14   // for each further one
)

// Top is how much room there is above the plot, and Total how high all of it is.
func (c Curve) Top() int   { return plotTop + eventRow*max(0, len(c.Events())-1) }
func (c Curve) Total() int { return c.Top() + plotHeight + plotBelow }

func (c Curve) tall(units int64) float64 {
	return plotHeight * float64(min(max(0, units), c.max)) / float64(max(1, c.max))
}

// Tall is how high an amount is in the plot, and Y its place from the top.
func (c Curve) Tall(units int64) string { return pixels(c.tall(units)) }
func (c Curve) Y(units int64) string    { return pixels(plotHeight - c.tall(units)) }

func pixels(y float64) string { return fmt.Sprintf("%.1f", y) }

// Budget is what ordinary jobs may spend.
func (c Curve) Budget() int64 { return c.Limit.Units - c.Limit.Reserve }

// Pace is the line of a budget that is spent evenly.
func (c Curve) Pace() string { return c.Path([]Point{{c.From, 0}, {c.full, c.Budget()}}) }

// Hours leaves out the ticks whose names would overlap that of now.
func (c Curve) Hours() []tick {
	return slices.DeleteFunc(c.Ticks(), func(t tick) bool { return math.Abs(t.part-c.part(c.Now)) < nearby })
}

// An event is a vertical line with a name, which has a row of its own above the plot.
type event struct {
	X, Text, Anchor, Class string
	Y                      int
}

// Events name when it is used up, and when units come back.
func (c Curve) Events() []event {
	var list []event
	add := func(at time.Time, what, class string) {
		if at.IsZero() || at.Before(c.From) || at.After(c.Until) {
			return
		}
		anchor := "start" // beside its line and within the plot
		if c.part(at) > 0.5 {
			anchor = "end"
		}
		list = append(list, event{c.Percent(at), what + " " + at.In(c.zone).Format("15:04"), anchor, class, eventTop + len(list)*eventRow})
	}
	add(c.dryAt, "used up", "dry")
	add(c.opensAt, "opens", "reset")
	add(c.resetsAt, "resets", "reset")
	return list
}

// A Value is what the limit holds about a time, for the pointer.
type Value struct{ X, Width, Text string }

// Values returns what each point of the curve says.
func (c Curve) Values() (list []Value) {
	points := slices.Concat(c.Held, c.Ahead)
	for i := 1; i < len(points); i++ {
		from, p, what := points[i-1], points[i], "used"
		if p.At.After(c.Now) {
			what = "used by then"
		}
		text := fmt.Sprintf("%s: %s of %s %s", p.At.In(c.zone).Format("Mon 15:04"), quota.Thousands(p.Units), quota.Thousands(c.Limit.Units), what)
		list = append(list, Value{c.Percent(from.At), percentOf(c.part(p.At) - c.part(from.At)), text})
	}
	return list
}

// Path draws points as a line.
func (c Curve) Path(points []Point) string {
	var b strings.Builder
	for i, p := range points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&b, "%s%.1f %s", command, plotWidth*c.part(p.At), c.Y(p.Units))
	}
	return b.String()
}

// Area draws what is below points.
func (c Curve) Area(points []Point) string {
	if len(points) == 0 {
		return ""
	}
	first, last := points[0], points[len(points)-1]
	return fmt.Sprintf("%sL%.1f %dL%.1f %dZ", c.Path(points), plotWidth*c.part(last.At), plotHeight, plotWidth*c.part(first.At), plotHeight)
}
