package main

import (
	"context"
	"strings"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/quota"
	"quotad/quota/api"
)

// A pace is how fast a limit was spent of late, and what comes of it if that goes on.
type pace struct {
	perHour int64 // units, rounded up
	gone    time.Time
	lasts   bool // what leaves the window makes room enough; false too where that is not known
}

// paces are by credential and limit.
type paces map[string]map[string]pace

// What is spent by the hour is worth so many entries of a log, and so long a wait.
const (
	hourlyEntries = 20_000
	hourlyTime    = 2 * time.Second
)

// hourly asks what was spent of each credential, by the hour. It is an extra: what
// cannot be told is left out.
func (c *cli) hourly(ctx context.Context, credentials []api.Credential) map[string]api.Usage {
	ctx, cancel := context.WithTimeout(ctx, hourlyTime)
	defer cancel()
	all, reader := make(map[string]api.Usage), c.reader()
	for _, one := range credentials {
		if one.Error != "" {
			continue
		}
		q := api.UsageQuery{By: string(quota.ByHour), Since: reach(one.Limits).String(), Most: hourlyEntries}
		if u, err := reader.Usage(ctx, one.Name, q); err == nil {
			all[one.Name] = u
		}
	}
	return all
}

// leastReach is how far back spending by the hour looks: a day.
const leastReach = 24 * time.Hour

// reach is the longest sliding window of the limits, a day at least.
func reach(limits []api.Limit) time.Duration {
	longest := leastReach
	for _, l := range limits {
		if length, sliding := slidingLength(l); sliding {
			longest = max(longest, length)
		}
	}
	return longest
}

func slidingLength(l api.Limit) (time.Duration, bool) {
	length, err := time.ParseDuration(l.Window)
	return length, err == nil
}

func pacesFrom(hourly map[string]api.Usage, credentials []api.Credential) paces {
	all := make(paces)
	for _, one := range credentials {
		if u, known := hourly[one.Name]; known {
			all[one.Name] = pacesOf(one.Limits, u)
		}
	}
	return all
}

// shortest is the shortest window that hours are not too coarse for.
const shortest = 2 * time.Hour

// pacesOf tells the pace of each limit that was spent in this hour or the one
// before, from its spending by the hour.
func pacesOf(limits []api.Limit, u api.Usage) map[string]pace {
	known := make(map[string]pace)
	for _, l := range limits {
		if p, ok := paceOf(l, u); ok {
			known[l.Name] = p
		}
	}
	return known
}

func paceOf(l api.Limit, u api.Usage) (p pace, ok bool) {
	length, sliding := slidingLength(l)
	hours := hoursOf(u, l.Name)
	p.perHour = recentPace(hours, u.Until)
	switch {
	case p.perHour == 0, sliding && length < shortest:
		return p, false
	case !sliding:
		p.gone = goneCalendar(l, p.perHour, u.Until)
	case u.Partial: // what leaves the window is not known
		return p, true
	default:
		p.gone = goneSliding(l, length, hours, p.perHour, u.Until)
	}
	p.lasts = p.gone.IsZero() && l.Remaining > 0
	return p, true
}

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

// recentPace is what was spent since the last full hour began, per hour.
func recentPace(hours []hour, now time.Time) int64 {
	since := now.Truncate(time.Hour).Add(-time.Hour)
	spent := int64(0)
	for _, h := range hours {
		if !h.began.Before(since) {
			spent += h.units
		}
	}
	perHour := float64(spent) / now.Sub(since).Hours()
	if perHour > 0 && perHour < 1 {
		return 1
	}
	return int64(perHour + 0.5)
}

// goneStep is how finely the time at which a limit is gone is looked for.
const goneStep = 5 * time.Minute

// goneSliding returns when a sliding window would be full, or the zero time if the
// pace can go on for ever: after a whole window nothing else is in it.
func goneSliding(l api.Limit, length time.Duration, hours []hour, perHour int64, now time.Time) time.Time {
	for ahead := goneStep; ahead <= length && l.Remaining > 0; ahead += goneStep {
		used := float64(l.Used) + float64(perHour)*ahead.Hours()
		for _, h := range hours {
			used -= h.leaving(length, now, ahead)
		}
		if used >= float64(l.Units-l.Reserve) {
			return now.Add(ahead)
		}
	}
	return time.Time{}
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

// goneCalendar returns when what is left of a period would be spent, or the zero
// time if the period ends before.
func goneCalendar(l api.Limit, perHour int64, now time.Time) time.Time {
	hours := float64(l.Remaining) / float64(perHour)
	if hours == 0 || hours > 1e5 { // longer than any period
		return time.Time{}
	}
	at := now.Add(time.Duration(hours * float64(time.Hour)))
	if l.NextUnitsAt != nil && !at.Before(*l.NextUnitsAt) {
		return time.Time{}
	}
	return at
}

// text writes "pace 412/h, gone in about 13h".
func (p pace) text(v term.View) string {
	text := "pace " + quota.Thousands(p.perHour) + "/h"
	switch {
	case !p.gone.IsZero():
		about, _, _ := strings.Cut(term.Brief(p.gone.Sub(v.Now)), " ")
		text += ", gone in about " + about
	case p.lasts:
		text += ", which lasts"
	}
	return text
}
