package wording

import (
	"fmt"
	"strings"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

// LimitStyle colours a limit: red when ordinary callers are denied, yellow in the last
// fifth of their budget.
func LimitStyle(l api.Limit) term.Style {
	switch {
	case l.Observes:
		return term.Faint
	case l.Remaining == 0:
		return term.Red
	case l.Remaining <= (l.Units-l.Reserve)/5:
		return term.Yellow
	default:
		return term.Green
	}
}

// Bar is what the bar of a limit shows as used, and at its end as reserve; the rest is left. Of a
// limit that is closed all is used.
func Bar(l api.Limit) (used, reserve int64) {
	if l.Closed == nil {
		reserve = max(0, min(l.Reserve, l.Units-l.Used))
	}
	return max(0, l.Units-l.Remaining-reserve), reserve
}

// LimitNotes says how long a debit counts, what is unusual about a limit, when units come
// back and, where it is known, how fast they are spent.
func LimitNotes(l api.Limit, r plan.Rate, v term.View) []string {
	notes := []string{l.Describe}
	switch {
	case l.Closed != nil:
		notes = append(notes, fmt.Sprintf("closed, opens %s: %s", v.When(l.Closed.Until), v.Clean(l.Closed.Says)))
	case l.Remaining == 0 && !l.Observes:
		notes = append(notes, "exhausted")
	}
	if l.NextUnitsAt != nil {
		notes = append(notes, fmt.Sprintf("%s back %s", quota.Units(l.NextUnits).Text(), v.When(*l.NextUnitsAt)))
	}
	if text := strings.Join(spending(l, r, v), ", "); text != "" {
		notes = append(notes, text)
	}
	return notes
}

// spending says when a limit is used up faster than the schedule explains, and what was spent in the last hour.
func spending(l api.Limit, r plan.Rate, v term.View) (parts []string) {
	if l.Remaining > 0 && !r.GoneAt.IsZero() {
		parts = append(parts, "used up at about "+strings.TrimSuffix(v.Clock(r.GoneAt.Truncate(time.Minute)), ":00")+v.ZoneMark())
	}
	if r.PerHour > 0 {
		parts = append(parts, quota.Thousands(r.PerHour)+" in the last hour")
	}
	return parts
}

// roughly writes a duration in its greatest unit.
func roughly(d time.Duration) string {
	text, _, _ := strings.Cut(term.Brief(max(0, d)), " ")
	return text
}

// Outlook says the one thing that is worth knowing of a limit.
func Outlook(c api.Credential, l api.Limit, r plan.Rate, v term.View) string {
	switch {
	case c.AsOf != nil:
		text := "as of " + v.Clock(*c.AsOf)
		if c.GrantedSince > 0 {
			text += fmt.Sprintf(", %s granted here since", quota.Units(c.GrantedSince).Text())
		}
		return text
	case l.Closed != nil:
		return "closed, opens in " + term.Brief(max(0, l.Closed.Until.Sub(v.Now)))
	case l.Observes:
		return "not enforced"
	case l.Remaining == 0 && l.NextUnitsAt != nil:
		return fmt.Sprintf("%s back in %s", quota.Thousands(l.NextUnits), term.Brief(max(0, l.NextUnitsAt.Sub(v.Now))))
	}
	return strings.Join(spending(l, r, v), ", ")
}

// FitStyle colours whether the schedule fits a limit.
func FitStyle(f plan.Fit) term.Style {
	switch {
	case f.Demand == 0:
		return term.Faint
	case f.Over() == 0:
		return term.Green
	}
	return term.Red
}
