package main

import (
	"fmt"
	"strings"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/quota"
	"quotad/quota/api"
)

// trailHours is how much of the past a trail shows: a day.
const trailHours = 24

// renderTrail draws what was spent in each of the last hours, as a line of bars
// above a line of hours. It draws nothing where nothing was spent.
func renderTrail(b *strings.Builder, u api.Usage, v term.View) {
	spent, most := lastHours(u)
	if most == 0 {
		return
	}
	wide := 1
	if v.Width >= term.DefaultWidth {
		wide = 2
	}
	bars := ""
	for _, units := range spent {
		bars += strings.Repeat(hourPlot{known: true, units: units}.mark(most, v), wide)
	}
	first := u.Until.Truncate(time.Hour).Add(-(trailHours - 1) * time.Hour)
	fmt.Fprintf(b, "  %s  %s\n", bars, v.Paint(term.Faint, "most "+quota.Thousands(most)+"/h"))
	b.WriteString("  " + v.Paint(term.Faint, hourMarks(first, wide, v)) + "\n")
}

// lastHours returns what was spent in each of the last hours, the oldest first.
func lastHours(u api.Usage) (spent [trailHours]int64, most int64) {
	latest := u.Until.Truncate(time.Hour)
	for _, s := range u.Shares {
		began, err := time.Parse(time.RFC3339, s.Name)
		ago := int(latest.Sub(began) / time.Hour)
		if err != nil || ago < 0 || ago >= trailHours {
			continue
		}
		spent[trailHours-1-ago] = s.Units
		most = max(most, s.Units)
	}
	return spent, most
}

// hourMarks names every sixth hour below its bar, where the name fits.
func hourMarks(first time.Time, wide int, v term.View) string {
	marks := []rune(strings.Repeat(" ", trailHours*wide))
	for i := range trailHours {
		local := first.Add(time.Duration(i) * time.Hour).In(v.Zone)
		if local.Hour()%6 == 0 && i*wide+2 <= len(marks) {
			copy(marks[i*wide:], []rune(local.Format("15")))
		}
	}
	return strings.TrimRight(string(marks), " ")
}
