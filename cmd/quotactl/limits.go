package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"quotad/cmd/quotactl/term"
	"quotad/jobs/plan"
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
func renderLimits(b *strings.Builder, credential string, limits []api.Limit, forecasts []plan.Forecast, v term.View) {
	notes := make([]string, len(limits))
	longest := 0
	for i, l := range limits {
		notes[i] = noteOf(l, v)
		if text := forecastText(l, plan.ForecastOf(forecasts, credential, l.Name), v); text != "" {
			notes[i] += "; " + text
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
	notes := []string{l.Describe}
	switch {
	case l.Closed != nil:
		notes = append(notes, fmt.Sprintf("closed, opens %s: %s", v.When(l.Closed.Until), v.Clean(l.Closed.Says)))
	case l.Remaining == 0 && l.Refuses():
		notes = append(notes, "exhausted")
	}
	for _, loan := range l.Loans {
		notes = append(notes, lentText(loan, v))
	}
	if l.Lifted {
		notes = append(notes, "lifted until that ends: it denies nothing")
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

// lentText says of a loan how much it is, until when, of whom and why.
func lentText(l api.Loan, v term.View) string {
	text := fmt.Sprintf("%s lent by %s until %s", units(l.Units), v.Caller(l.By), v.Until(l.Until))
	if l.Note != "" {
		text += ": " + v.Clean(l.Note)
	}
	return text
}

// forecastText says what was spent in the last hour, and how long the rest lasts: "412 in the last hour,
// used up in about 13h". It is empty where nothing is spent.
func forecastText(l api.Limit, f plan.Forecast, v term.View) string {
	var parts []string
	if f.PerHour > 0 {
		parts = append(parts, quota.Thousands(f.PerHour)+" in the last hour")
	}
	switch {
	case l.Remaining == 0 || l.Closed != nil || !l.Refuses():
	case !f.GoneAt.IsZero():
		about, _, _ := strings.Cut(term.Brief(max(0, f.GoneAt.Sub(v.Now))), " ")
		parts = append(parts, "used up in about "+about)
	case f.PerHour > 0:
		parts = append(parts, "enough for the next "+quota.Brief(f.Until.Sub(v.Now).Round(time.Hour)))
	}
	return strings.Join(parts, ", ")
}

// hourlyEntries is how many entries of a log what is spent by the hour is worth.
const hourlyEntries = 20_000

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
	return time.Duration(l.WindowMs) * time.Millisecond, l.WindowMs > 0
}
