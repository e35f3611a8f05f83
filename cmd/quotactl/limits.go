package main

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"quotad/cmd/quotactl/term"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/api"
)

// The bar is as wide as the screen leaves it, within these bounds; below the
// least it says nothing and is left out.
const (
	leastBar = 8
	wideBar  = 24 // where there is room for more, the notes come first
	mostBar  = 40
)

// renderLimits writes a credential's limits, one line each, with a note on how
// long a debit counts, when units come back and, where it is known, how fast they
// are spent: beside the line where the screen is wide enough, else below it.
func renderLimits(b *strings.Builder, limits []api.Limit, paces map[string]pace, v term.View) {
	notes := make([]string, len(limits))
	longest := 0
	for i, l := range limits {
		notes[i] = noteOf(l, v)
		if p, known := paces[l.Name]; known {
			notes[i] += "; " + p.text(v)
		}
		longest = max(longest, utf8.RuneCountInString(notes[i]))
	}
	room := v.Width - limitsTable(limits, 0, v).Width()
	beside := room-term.Gap-longest >= wideBar
	if beside {
		room -= term.Gap + longest
	}
	if room < leastBar {
		room = 0
	}
	t := limitsTable(limits, min(mostBar, room), v)
	if beside {
		t.Columns = append(t.Columns, term.Column{})
	}
	for i, note := range notes {
		if beside {
			t.Rows[i].Cells = append(t.Rows[i].Cells, term.Cell{Text: note, Style: term.Faint})
		} else {
			t.Rows[i].Below = note
		}
	}
	t.Render(b, v)
}

func limitsTable(limits []api.Limit, bar int, v term.View) *term.Table {
	t := &term.Table{Indent: 2, Columns: []term.Column{
		{Head: "LIMIT"}, {Whole: true},
		{Head: "USED", Right: true}, {Head: "RESERVE", Right: true}, {Head: "REMAINING", Right: true}, {Head: "UNITS", Right: true},
	}}
	for _, l := range limits {
		state := stateOf(l)
		t.Add(term.Cell{Text: l.Name}, term.Cell{Text: barOf(l, bar, v), Style: state},
			term.Cell{Text: quota.Thousands(l.Used)}, term.Cell{Text: quota.Thousands(l.Reserve)}, term.Cell{Text: quota.Thousands(l.Remaining), Style: state}, term.Cell{Text: quota.Thousands(l.Units)})
	}
	return t
}

// stateOf colours a limit: red when ordinary callers are denied, yellow in the
// last fifth of their budget.
func stateOf(l api.Limit) term.Style {
	switch {
	case !l.Refuses():
		return term.Faint
	case l.Remaining == 0:
		return term.Red
	case l.Remaining <= (l.Units-l.Reserve)/5:
		return term.Yellow
	default:
		return term.Green
	}
}

// barOf draws a limit: what is used from the left, what of the reserve is left
// at the right, and between them what ordinary callers may spend, which shows as
// long as there is any.
func barOf(l api.Limit, width int, v term.View) string {
	used, free, reserve := "#", ".", "="
	if v.UTF8 {
		used, free, reserve = "█", "░", "▒"
	}
	if l.Units < 1 || width < 1 {
		return ""
	}
	freeCells := share(l.Remaining, l.Units, width)
	kept := max(0, min(l.Reserve, l.Units-l.Used))
	if l.CatchingUpUntil != nil || l.Closed != nil {
		kept = 0
	}
	reserveCells := min(share(kept, l.Units, width), width-freeCells)
	usedCells := width - freeCells - reserveCells
	if l.Used > 0 && usedCells == 0 && freeCells > 1 {
		usedCells, freeCells = 1, freeCells-1
	}
	return strings.Repeat(used, usedCells) + strings.Repeat(free, freeCells) + strings.Repeat(reserve, reserveCells)
}

// share is the part of width that an amount is of a whole, rounded up, at most
// width. Width is small and amounts end at 2^53, so nothing overflows.
func share(amount, whole int64, width int) int {
	return int(min(int64(width), (amount*int64(width)+whole-1)/whole))
}

func noteOf(l api.Limit, v term.View) string {
	notes := []string{windowText(l.Window) + jobsText(l)}
	switch {
	case l.Closed != nil:
		notes = append(notes, fmt.Sprintf("closed, opens %s: %s", v.When(l.Closed.Until), v.Clean(l.Closed.Says)))
	case l.Remaining == 0 && l.Refuses():
		notes = append(notes, "exhausted")
	}
	if l.Lifted {
		notes = append(notes, "lifted until that ends: it denies nothing")
	} else if l.Lift != "" {
		notes = append(notes, "lifted in the last "+jobs.Brief(l.Lift))
	}
	if l.Observe {
		notes = append(notes, "not enforced: it denies nothing")
	}
	if l.CatchingUpUntil != nil {
		notes = append(notes, "counts as spent until the log fills its longer window, "+v.When(*l.CatchingUpUntil))
	}
	if l.NextUnitsAt != nil {
		notes = append(notes, fmt.Sprintf("%s back %s", units(l.NextUnits), v.When(*l.NextUnitsAt)))
	}
	if l.Drift != nil && l.Drift.Far {
		notes = append(notes, v.Clean(l.Drift.Cause))
	}
	return strings.Join(notes, "; ")
}

// jobsText says whose calls a limit counts, where they are not everybody's.
func jobsText(l api.Limit) string {
	switch {
	case len(l.Jobs) > 0:
		return ", of " + strings.Join(l.Jobs, ", ")
	case len(l.ExceptJobs) > 0:
		return ", of all but " + strings.Join(l.ExceptJobs, ", ")
	}
	return ""
}

// windowText says how long a debit counts, from "24h0m0s" or "day
// America/Los_Angeles".
func windowText(window string) string {
	if period, zone, ok := strings.Cut(window, " "); ok {
		return "each " + period + " in " + zone
	}
	return "in any " + jobs.Brief(window)
}

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
