package wording

import (
	"fmt"
	"strings"
	"time"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

// LimitStyle colours a limit: red when ordinary callers are denied, yellow in the last fifth of their budget.
func LimitStyle(l api.Limit) Style {
	switch {
	case l.Observes:
		return Faint
	case l.Remaining == 0:
		return Red
	case l.Remaining <= (l.Units-l.Reserve)/5:
		return Yellow
	}
	return Green
}

// Bar is what the bar of a limit shows as used, and at its end as reserve; the rest is left. Of a limit that is closed all
// is used.
func Bar(l api.Limit) (used, reserve int64) {
	if l.Closed == nil {
		reserve = max(0, min(l.Reserve, l.Units-l.Used))
	}
	return max(0, l.Units-l.Remaining-reserve), reserve
}

// Outlook says the one thing that is worth knowing of a limit.
func Outlook(s jobsapi.Status, c api.Credential, l api.Limit, v View) string {
	rate := plan.RateOf(s.Rates, c.Name, l.Name)
	switch {
	case c.AsOf != nil:
		text := "as of " + v.Clock(*c.AsOf)
		if c.GrantedSince > 0 {
			text += fmt.Sprintf(", %s granted here since", quota.Units(c.GrantedSince).Text())
		}
		return text
	case l.Closed != nil:
		return "closed until " + v.Clock(CeilSecond(l.Closed.Until))
	case l.Observes && l.Remaining == 0:
		return "would be refused"
	case l.Observes:
		return "not enforced"
	}
	for _, j := range s.Jobs {
		if j.Credential == c.Name && j.Short != nil && j.Short.Limit == l.Name && int64(j.Short.Needs) > l.Remaining {
			return "too little for " + j.Name
		}
	}
	switch {
	case l.Remaining == 0 && l.NextUnitsAt != nil:
		return fmt.Sprintf("%s back in %s", quota.Thousands(l.NextUnits), Brief(max(0, l.NextUnitsAt.Sub(v.Now))))
	case !rate.GoneAt.IsZero():
		return "used up at about " + strings.TrimSuffix(v.Clock(rate.GoneAt.Truncate(time.Minute)), ":00")
	case rate.PerHour > 0:
		return quota.Thousands(rate.PerHour) + " in the last hour"
	}
	return ""
}

// Calm says that nothing needs a person, and that this is so although a run stopped, if no note explains that.
func Calm(s jobsapi.Status) string {
	for _, j := range s.Jobs {
		if j.Last != nil && j.Last.State == jobs.RunStopped && j.Host == "" && !j.Next.IsZero() && len(s.Triage.Notes) == 0 {
			return s.Triage.Says + ": what stopped continues with its next run"
		}
	}
	return s.Triage.Says
}

// TroubleStyle is the style of a trouble.
func TroubleStyle(t jobsapi.Trouble) Style {
	if t.Grave {
		return Red
	}
	return Yellow
}

// Since says since when something is wrong; empty if that is not known, or it is a note, or its sentence says so.
func Since(t jobsapi.Trouble, v View) string {
	if t.Since.IsZero() || strings.Contains(t.Says, " since ") {
		return ""
	}
	return " (since " + v.Clock(t.Since) + ")"
}
