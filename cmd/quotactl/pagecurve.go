package main

import (
	"slices"
	"time"

	"quotad/cmd/quotactl/page"
	"quotad/jobs/plan"
	"quotad/quota/api"
)

// curveOf returns what a limit's window holds, by when it was spent, and how that goes on
// if the schedule played is kept; or why there is no such curve.
func curveOf(l api.Limit, spent told, planned time.Time, played plan.Limit, now time.Time) (*page.Curve, string) {
	length, sliding := slidingLength(l)
	from, known := spent.usage.Windows[l.Name]
	resets := resetOf(l, played)
	switch {
	case sliding && length < shortest:
		return nil, "no chart: the window is shorter than an hour"
	case spent.err != nil:
		return nil, "no chart: the spending of each hour cannot be read: " + spent.err.Error()
	case !known || !sliding && resets.IsZero():
		return nil, "no curve: when its window began is not known"
	}
	c := &page.Curve{From: from, Now: now, Until: resets, Full: resets, ResetsAt: resets, DryAt: played.DryAt}
	if sliding {
		c.Until, c.Full, c.ResetsAt = now.Add(min(length, mostAhead)), now, time.Time{}
	}
	if l.Closed != nil {
		c.OpensAt = l.Closed.Until
	}
	hours := hoursOf(spent.usage, l.Name)
	c.Held = heldPoints(hours, from, spent.usage.Until, page.Point{At: now, Units: l.Used})
	c.Ahead = aheadPoints(l, c, hours, planned, played)
	return c, ""
}

// mostAhead is as far as a plan looks.
const mostAhead = 31 * 24 * time.Hour

// resetOf is when a calendar window begins anew, if that is known.
func resetOf(l api.Limit, played plan.Limit) time.Time {
	if !played.ResetsAt.IsZero() || l.NextUnitsAt == nil {
		return played.ResetsAt
	}
	return *l.NextUnitsAt
}

// heldPoints adds up what was spent hour by hour until the hours were told, and ends with
// what is used now.
func heldPoints(hours []hour, from, until time.Time, now page.Point) []page.Point {
	points := []page.Point{{At: from}}
	var sum int64
	add := func(at time.Time, units int64) {
		if at.After(points[len(points)-1].At) && at.Before(now.At) {
			points = append(points, page.Point{At: at, Units: units})
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

// aheadPoints go on hour by hour: what leaves the window comes back, and the schedule
// spends what it was played to.
func aheadPoints(l api.Limit, c *page.Curve, hours []hour, planned time.Time, played plan.Limit) []page.Point {
	length, sliding := slidingLength(l)
	points := []page.Point{{At: c.Now, Units: l.Used}}
	for at := c.Now.Truncate(time.Hour).Add(time.Hour); ; at = at.Add(time.Hour) {
		if at.After(c.Until) {
			at = c.Until
		}
		used := float64(l.Used) + plannedBetween(played, planned, c.Now, at)
		for _, h := range hours {
			if sliding {
				used -= h.leaving(length, c.Now, at.Sub(c.Now))
			}
		}
		points = append(points, page.Point{At: at, Units: max(0, int64(used+0.5))})
		if !at.Before(c.Until) {
			return points
		}
	}
}

// plannedBetween is what the schedule spends between two times, if it spends evenly
// within an hour.
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

// overlap is how long two stretches of time have in common.
func overlap(begin, end, from, to time.Time) time.Duration {
	if from.After(begin) {
		begin = from
	}
	if to.Before(end) {
		end = to
	}
	return end.Sub(begin)
}

// shortest is the shortest window that hours are not too coarse for.
const shortest = 2 * time.Hour

// An hour is what was spent in one.
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

// leaving is how much of an hour's units leaves a window within a time from now, if
// they were spent evenly.
func (h hour) leaving(length time.Duration, now time.Time, ahead time.Duration) float64 {
	from, to := h.began, h.began.Add(time.Hour)
	if oldest := now.Add(-length); from.Before(oldest) {
		from = oldest // the rest has left
	}
	if to.After(now) {
		to = now
	}
	gone := now.Add(ahead - length).Sub(from)
	if gone <= 0 || !to.After(from) {
		return 0
	}
	return float64(h.units) * min(1, float64(gone)/float64(to.Sub(from)))
}
