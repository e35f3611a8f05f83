package page

import (
	"slices"
	"time"

	"quotad/cmd/quotactl/wording"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

// minChart is the shortest window for which hours are fine enough, and maxAhead how far a
// forecast looks.
const (
	minChart = 2 * time.Hour
	maxAhead = 24 * time.Hour
)

// curveOf returns what a limit's window holds, by when it was spent, and how that develops
// by the forecast; or why there is no such curve.
func curveOf(l api.Limit, spent Usage, ahead plan.Forecast, now time.Time) Curve {
	length, sliding := wording.SlidingWindow(l)
	from, known := spent.Windows[l.Name]
	resets := ahead.ResetsAt
	if resets.IsZero() && l.NextUnitsAt != nil {
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
	c := Curve{axis: axis{From: from, Until: resets}, Limit: l, Now: now, full: resets, resetsAt: resets, dryAt: ahead.GoneAt}
	if sliding {
		c.Until, c.full, c.resetsAt = now.Add(min(length, maxAhead)), now, time.Time{}
	}
	if l.Closed != nil {
		c.opensAt = l.Closed.Until
	}
	held := heldSpans(spent.Usage, l.Name, from)
	c.Held = heldPoints(held, from, spent.Until, Point{At: now, Units: l.Used})
	c.Ahead = c.aheadPoints(held, coming(ahead))
	c.max = max(1, l.Units)
	for _, point := range slices.Concat(c.Held, c.Ahead) {
		c.max = max(c.max, point.Units)
	}
	return c
}

// A span is units that are spent evenly from one time to another.
type span struct {
	from, to time.Time
	units    int64
}

// within is how many of the units are spent between two times.
func (s span) within(from, to time.Time) float64 {
	whole, part := s.to.Sub(s.from), quota.Earlier(s.to, to).Sub(quota.Later(s.from, from))
	if whole <= 0 || part <= 0 {
		return 0
	}
	return float64(s.units) * float64(part) / float64(whole)
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

// coming are the hours of a forecast.
func coming(f plan.Forecast) (spans []span) {
	for i, units := range f.Hours {
		at := f.From.Add(time.Duration(i) * time.Hour)
		spans = append(spans, span{at, at.Add(time.Hour), int64(units)})
	}
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

// aheadPoints continue hour by hour for a day at most: what leaves a sliding window comes back, and
// what is foreseen is spent.
func (c Curve) aheadPoints(held, foreseen []span) []Point {
	length, sliding := wording.SlidingWindow(c.Limit)
	points := []Point{{At: c.Now, Units: c.Limit.Used}}
	for at, end := c.Now, quota.Earlier(c.Until, c.Now.Add(maxAhead)); at.Before(end); {
		at = quota.Earlier(at.Truncate(time.Hour).Add(time.Hour), end)
		used := float64(c.Limit.Used)
		for _, s := range foreseen {
			used += s.within(c.Now, at)
		}
		for _, s := range held {
			if sliding {
				used -= s.within(c.From, at.Add(-length))
			}
		}
		points = append(points, Point{At: at, Units: max(0, int64(used+0.5))})
	}
	return points
}
