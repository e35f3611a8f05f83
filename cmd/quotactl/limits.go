package main

import (
	"strings"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

// The bar of a limit is as wide as the screen allows, within these bounds. A bar below
// minBar would say nothing and is left out.
const (
	minBar = 8
	maxBar = 40
)

// renderLimits writes a credential's limits, one line each, with notes below.
func renderLimits(b *strings.Builder, credential string, limits []api.Limit, forecasts []plan.Forecast, v term.View) {
	room := v.Width - limitsTable(limits, 0).Width()
	if room < minBar {
		room = 0
	}
	t := limitsTable(limits, min(maxBar, room))
	for i, l := range limits {
		t.Rows[i].Below = strings.Join(wording.LimitNotes(l, plan.ForecastOf(forecasts, credential, l.Name), v), "; ")
	}
	t.Render(b, v)
}

func limitsTable(limits []api.Limit, bar int) *term.Table {
	t := &term.Table{Indent: 2, Columns: []term.Column{
		{Head: "LIMIT"}, {Whole: true},
		{Head: "USED", Right: true}, {Head: "RESERVE", Right: true}, {Head: "REMAINING", Right: true}, {Head: "UNITS", Right: true},
	}}
	for _, l := range limits {
		state := wording.LimitStyle(l)
		t.Add(l.Name, term.Styled(state, barOf(l, bar)), l.Used, l.Reserve, term.Styled(state, quota.Thousands(l.Remaining)), l.Units)
	}
	return t
}

// barOf draws a limit: what is used from the left, what is left of the reserve at the
// right, and between them what ordinary callers may spend, which shows if there is any.
func barOf(l api.Limit, width int) string {
	if l.Units < 1 || width < 1 {
		return ""
	}
	freeCells := share(l.Remaining, l.Units, width)
	_, reserved := wording.Bar(l)
	reserveCells := min(share(reserved, l.Units, width), width-freeCells)
	usedCells := width - freeCells - reserveCells
	if l.Used > 0 && usedCells == 0 && freeCells > 1 {
		usedCells, freeCells = 1, freeCells-1
	}
	return strings.Repeat(term.Full, usedCells) + strings.Repeat("░", freeCells) + strings.Repeat("▒", reserveCells)
}

// share is the part of width that an amount is of a whole, rounded up, and at most width.
// Width is small and amounts end at 2^53, so nothing overflows.
func share(amount, whole int64, width int) int {
	return int(min(int64(width), (amount*int64(width)+whole-1)/whole))
}
