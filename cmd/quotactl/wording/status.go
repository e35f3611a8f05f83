package wording

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"quotad/cmd/quotactl/term"
	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
)

// TriageStyle is the style of the sentence that says what needs a person.
func TriageStyle(t jobsapi.Triage) term.Style {
	if len(t.Troubles) == 0 {
		return term.Green
	}
	return TroubleStyle(t.Troubles[0])
}

// TroubleStyle is the style of one trouble.
func TroubleStyle(t jobsapi.Trouble) term.Style {
	if t.Grave {
		return term.Red
	}
	return term.Yellow
}

// Trouble says what is wrong, and since when.
func Trouble(t jobsapi.Trouble, v term.View) string { return v.Clean(t.Says) + Since(t, v) }

// Since says since when something is wrong; empty if that is not known, or it is a note, or its
// sentence says so.
func Since(t jobsapi.Trouble, v term.View) string {
	_, after, _ := strings.Cut(t.Says, " since ") // "since Tue 09:00", not "since its last snapshot"
	if t.Since.IsZero() || after != "" && !unicode.IsLower(rune(after[0])) {
		return ""
	}
	return " (since " + v.Clock(t.Since) + ")"
}

// Spent is what a share spent in a limit, or in all limits if limit is empty.
func Spent(s api.SpentBy, limit string) int64 {
	if limit != "" {
		return s.Limits[limit]
	}
	return s.Units
}

// Shares returns the shares that have something in the limit, and how much the greatest has.
func Shares(u api.Usage, limit string) (shares []api.SpentBy, greatest int64) {
	for _, s := range u.Shares {
		if spent := Spent(s, limit); spent > 0 || limit == "" && s.Calls > 0 {
			shares, greatest = append(shares, s), max(greatest, spent)
		}
	}
	if limit != "" && u.By != "hour" && u.By != "day" {
		slices.SortStableFunc(shares, func(x, y api.SpentBy) int { return cmp.Compare(y.Limits[limit], x.Limits[limit]) })
	}
	return shares, greatest
}

// ShareName is what people read for the name of a share.
func ShareName(by, name string, v term.View) string {
	switch {
	case name == "" && by == "operation":
		return "(booked)"
	case name == "":
		return "(outside a pass)"
	case by == "hour":
		if at, err := time.Parse(time.RFC3339, name); err == nil {
			return v.Clock(at)
		}
	}
	return v.Caller(name)
}

// Percent writes a part of a whole in whole hundredths. Only nothing is 0%, and only all of
// it is 100%.
func Percent(part, whole int64) string {
	hundredths := 100 * float64(part) / float64(max(1, whole))
	if 0 < hundredths && hundredths < 1 {
		return "<1%"
	}
	if part < whole {
		hundredths = min(hundredths, 99)
	}
	return fmt.Sprintf("%.0f%%", hundredths)
}
