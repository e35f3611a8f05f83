package page

import (
	"slices"
	"time"

	"quotad/cmd/quotactl/wording"
	"quotad/jobs/plan"
	"quotad/quota/api"
)

// curveOf returns what a limit's window holds, by when it was spent, and how that develops
// if the simulated schedule is kept; or why there is no such curve.
func curveOf(l api.Limit, spent Usage, planned time.Time, played plan.Limit, now time.Time) Curve {
	length, sliding := wording.SlidingWindow(l)
	from, known := spent.Windows[l.Name]
	resets := resetOf(l, played)
	switch {
	case sliding && length < minChart:
		return Curve{Why: "no chart: the window is shorter than an hour"}
	case spent.Err != nil:
		return Curve{Why: "no chart: the spending of each hour cannot be read: " + spent.Err.Error()}
	case !known || !sliding && resets.IsZero():
		return Curve{Why: "no curve: when its window began is not known"}
	}
	c := Curve{axis: axis{From: from, Until: resets}, Limit: l, Now: now, full: resets, resetsAt: resets, dryAt: played.DryAt}
	if sliding {
		c.Until, c.full, c.resetsAt = now.Add(min(length, maxAhead)), now, time.Time{}
	}
	if l.Closed != nil {
		c.opensAt = l.Closed.Until
	}
	hours := hoursOf(spent.Usage, l.Name)
	c.Held = heldPoints(hours, from, spent.Until, Point{At: now, Units: l.Used})
	c.Ahead = aheadPoints(c, hours, planned, played)
	c.max = max(1, l.Units)
	for _, point := range slices.Concat(c.Held, c.Ahead) {
		c.max = max(c.max, point.Units)
	}
	return c
}

// maxAhead is how far a plan looks ahead.
const maxAhead = 31 * 24 * time.Hour

// resetOf is when the next calendar window begins, if that is known.
func resetOf(l api.Limit, played plan.Limit) time.Time {
	if !played.ResetsAt.IsZero() || l.NextUnitsAt == nil {
		return played.ResetsAt
	}
	return *l.NextUnitsAt
}

// heldPoints adds up what was spent hour by hour up to the time of the answer, and ends
// with what is used now.
func heldPoints(hours []hour, from, until time.Time, now Point) []Point {
	points := []Point{{At: from}}
	var sum int64
	add := func(at time.Time, units int64) {
		if at.After(points[len(points)-1].At) && at.Before(now.At) {
			points = append(points, Point{At: at, Units: units})
		}
	}
	slices.SortFunc(hours, func(x, y hour) int { return x.began.Compare(y.began) })
	for _, h := range hours {
		add(h.began, sum)
		sum += h.units
		if end := h.began.Add(time.Hour); end.Before(until) {
			add(end, sum)
		}
	}
	add(until, sum)
	return append(points, now)
}

// aheadPoints continue hour by hour: what leaves the window comes back, and the schedule
// spends what the simulation says.
func aheadPoints(c Curve, hours []hour, planned time.Time, played plan.Limit) []Point {
	length, sliding := wording.SlidingWindow(c.Limit)
	points := []Point{{At: c.Now, Units: c.Limit.Used}}
	for at := c.Now.Truncate(time.Hour).Add(time.Hour); ; at = at.Add(time.Hour) {
		if at.After(c.Until) {
			at = c.Until
		}
		used := float64(c.Limit.Used) + plannedBetween(played, planned, c.Now, at)
		for _, h := range hours {
			if sliding {
				used -= h.leaving(length, c.Now, at.Sub(c.Now))
			}
		}
		points = append(points, Point{At: at, Units: max(0, int64(used+0.5))})
		if !at.Before(c.Until) {
			return points
		}
	}
}

// plannedBetween is what the schedule spends between two times if it spends evenly within
// each hour.
func plannedBetween(played plan.Limit, planned, from, to time.Time) float64 {
	sum := 0.0
	for _, h := range played.Hours {
		begin, end := h.At, h.At.Add(time.Hour)
		if begin.Before(planned) {
			begin = planned
		}
		if within := overlap(begin, end, from, to); within > 0 {
			sum += float64(h.Units) * float64(within) / float64(end.Sub(begin))
		}
	}
	return sum
}

// overlap is how much time two spans have in common.
func overlap(begin, end, from, to time.Time) time.Duration {
	if from.After(begin) {
		begin = from
	}
	if to.Before(end) {
		end = to
	}
	return end.Sub(begin)
}

// minChart is the shortest window for which hours are fine enough.
const minChart = 2 * time.Hour

// An hour is what was spent in an hour.
type hour struct {
	began time.Time
	units int64
}

func hoursOf(u api.Usage, limit string) []hour {
	var hours []hour
	for _, s := range u.Shares {
		if began, err := time.Parse(time.RFC3339, s.Name); err == nil {
			hours = append(hours, hour{began, s.Limits[limit]})
		}
	}
	return hours
}

// leaving is how many of an hour's units leave a window within a time from now, if they
// were spent evenly.
func (h hour) leaving(length time.Duration, now time.Time, ahead time.Duration) float64 {
	from, to := h.began, h.began.Add(time.Hour)
	if oldest := now.Add(-length); from.Before(oldest) {
		from = oldest // the rest has left
	}
	if to.After(now) {
		to = now
	}
	left := now.Add(ahead - length).Sub(from)
	if left <= 0 || !to.After(from) {
		return 0
	}
	return float64(h.units) * min(1, float64(left)/float64(to.Sub(from)))
}
