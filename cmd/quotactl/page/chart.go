package page

import (
	"fmt"
	"strings"
	"time"

	"quotad/jobs/plan"
	"quotad/quota/api"
)

// A Chart is what of a limit counts now, by when it was spent in the last day, and from now on the straight line on which
// it is used up. Its methods are for page.html.
type Chart struct {
	Why         string // there is none
	From, Until time.Time
	Held, Ahead []point
	budget      int64 // what ordinary jobs may spend
	most        int64 // at the top
	zone        *time.Location
}

type point struct {
	at    time.Time
	units int64
}

const (
	chartSpan = 24 * time.Hour
	chartStep = 15 * time.Minute
	minChart  = 2 * time.Hour // of a shorter window a day says nothing
	boxWidth  = 1000          // of the box that is stretched to the room there is
	boxHeight = 100
)

// chartOf goes back from what is used now, less what was spent since.
func chartOf(l api.Limit, spent Spent, rate plan.Rate, now time.Time, zone *time.Location) Chart {
	if 0 < l.WindowMs && l.WindowMs < minChart.Milliseconds() {
		return Chart{Why: "no chart: the window is shorter than two hours"}
	}
	if spent.Err != nil {
		return Chart{Why: "no chart: the log cannot be read: " + spent.Err.Error()}
	}
	c := Chart{From: now.Add(-chartSpan), Until: now, budget: l.Units - l.Reserve, zone: zone}
	units, used := spent.Limits[l.Name], l.Used
	c.Held = []point{{now, used}}
	for at := now.UTC().Truncate(chartStep); at.After(spent.Since) && at.After(c.From); at = at.Add(-chartStep) {
		used = max(0, used-units[at])
		c.Held = append(c.Held, point{at, used})
	}
	c.most = max(1, l.Units, l.Used)
	if gone := rate.GoneAt; gone.After(now) {
		c.Until, c.Ahead = gone, []point{{now, l.Used}, {gone, max(l.Used, c.budget)}}
	}
	return c
}

// x is the place of an instant from the left, and y that of an amount from the top.
func (c Chart) x(at time.Time) float64 {
	return boxWidth * max(0, float64(at.Sub(c.From))/float64(c.Until.Sub(c.From)))
}

func (c Chart) y(units int64) float64 { return boxHeight * (1 - float64(units)/float64(c.most)) }

// Path draws points as a line, and Area what is below them.
func (c Chart) Path(points []point) string {
	var b strings.Builder
	for i, p := range points {
		fmt.Fprintf(&b, "%c%.1f %.1f", "ML"[min(i, 1)], c.x(p.at), c.y(p.units))
	}
	return b.String()
}

func (c Chart) Area(points []point) string {
	first, last := points[0], points[len(points)-1]
	return fmt.Sprintf("%sL%.1f %dL%.1f %dZ", c.Path(points), c.x(last.at), boxHeight, c.x(first.at), boxHeight)
}

// Budget is the height of what ordinary jobs may spend.
func (c Chart) Budget() string { return fmt.Sprintf("%.1f", c.y(c.budget)) }

// A tick names a time below the chart.
type tick struct{ X, Text, Anchor string }

// Ticks are each sixth hour of the clock, and now.
func (c Chart) Ticks() (ticks []tick) {
	now := c.Held[0].at
	for at := c.From.Truncate(chartStep).Add(chartStep); at.Before(c.Until); at = at.Add(chartStep) {
		clock, text := at.In(c.zone), "15:04"
		if clock.Hour()%6 != 0 || clock.Minute() != 0 || at.Sub(now).Abs() < chartSpan/10 {
			continue
		}
		if clock.Hour() == 0 {
			text = "Mon 2"
		}
		ticks = append(ticks, c.tick(at, clock.Format(text)))
	}
	return append(ticks, c.tick(now, "now"))
}

// tick keeps the text within the chart.
func (c Chart) tick(at time.Time, text string) tick {
	part, anchor := c.x(at)/boxWidth, "middle"
	if part < 0.06 {
		anchor = "start"
	} else if part > 0.94 {
		anchor = "end"
	}
	return tick{fmt.Sprintf("%.2f%%", 100*part), text, anchor}
}
