package page

import (
	"context"
	"fmt"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/regions"
)

// A Look returns what the page shows now. Its error says why nothing is known.
type Look func(context.Context) (Picture, error)

// A Picture is the facts as of one instant, and how to write them. Its methods say them in
// the words of the other commands. They are for page.html, which escapes what they return.
type Picture struct {
	Facts
	term.View
	Lost  error     // why quotad does not answer any more; nil if it does
	Since time.Time // since when
}

// A Line is a text and how it stands out.
type Line = term.Cell

// Trouble says what is wrong.
func (p Picture) Trouble(t jobsapi.Trouble) string { return wording.Trouble(t, p.View) }

// Outlook says the one thing that is worth knowing of a limit, and Notes say all.
func (p Picture) Outlook(c api.Credential, l api.Limit) string {
	return wording.Outlook(c, l, plan.ForecastOf(p.Status.Forecast, c.Name, l.Name), p.View)
}

func (p Picture) Notes(c api.Credential, l api.Limit) []string {
	return wording.LimitNotes(l, plan.ForecastOf(p.Status.Forecast, c.Name, l.Name), p.View)
}

// Schedule says whether the schedule fits a limit.
func (p Picture) Schedule(c api.Credential, l api.Limit) Line {
	if p.PlanErr != nil {
		return term.Styled(term.Red, "is not known: "+p.PlanErr.Error())
	}
	for _, f := range p.Plan.Limits {
		if f.Credential == c.Name && f.Limit == l.Name {
			return term.Styled(wording.FitStyle(f), f.String())
		}
	}
	return Line{}
}

// Curve returns what a limit holds over time.
func (p Picture) Curve(c api.Credential, l api.Limit) Curve {
	curve := curveOf(l, p.Usage[c.Name][quota.ByHour], plan.ForecastOf(p.Status.Forecast, c.Name, l.Name), p.Now)
	curve.zone = p.Zone
	curve.Label = fmt.Sprintf("limit %s of %s: %s of %s used", l.Name, c.Name, quota.Thousands(l.Used), quota.Thousands(l.Units))
	if text := p.Schedule(c, l).Text; text != "" {
		curve.Label += "; the schedule " + text
	}
	return curve
}

// maxShares is how many spenders are named; the rest is summed up.
const maxShares = 8

// A Spending is who spent what of a credential's limits.
type Spending struct {
	By     string // "job"
	Note   string // of which time
	Err    error  // why it is not known
	Shares []Share
}

// A Share is what one spender spent.
type Share struct {
	Name    string
	Units   int64
	Percent string
	Part    float64 // of the greatest share, from 0 to 1
}

// Spent returns who spent what of a credential, by job and by operation.
func (p Picture) Spent(credential string) []Spending {
	var list []Spending
	for _, by := range []quota.Dimension{quota.ByJob, quota.ByOperation} {
		u := p.Usage[credential][by]
		s := Spending{By: string(by), Err: u.Err}
		if !u.Since.IsZero() {
			s.Note = "since " + p.Clock(u.Since) + p.ZoneMark()
		}
		if u.Partial {
			s.Note += fmt.Sprintf(", of the latest %s", quota.Count(hourlyEntries, "entry", "entries"))
		}
		shares, greatest := wording.Shares(u.Usage, "")
		var others int64
		for _, one := range shares[min(maxShares, len(shares)):] {
			others += one.Units
		}
		greatest = max(1, greatest, others)
		add := func(name string, units int64) {
			s.Shares = append(s.Shares, Share{name, units, wording.Percent(units, u.Total.Units), float64(units) / float64(greatest)})
		}
		for _, one := range shares[:min(maxShares, len(shares))] {
			add(wording.ShareName(u.By, one.Name, p.View), one.Units)
		}
		if others > 0 {
			add("others", others)
		}
		list = append(list, s)
	}
	return list
}

// Next says in a few words when a job runs next.
func (p Picture) Next(j jobsapi.Job) string {
	switch {
	case j.Pause != nil:
		return "paused"
	case j.Next.IsZero():
		return "by hand alone"
	case wording.IsOverdue(j, p.View):
		return "overdue; next " + p.Clock(j.Next) + p.ZoneMark()
	}
	return "next " + p.Clock(j.Next) + p.ZoneMark()
}

var noRun = term.Styled(term.Faint, "no run yet")

// Last says in a few words what a job's last run came to.
func (p Picture) Last(j jobsapi.Job) Line {
	if j.Last == nil {
		return noRun
	}
	return wording.LastRun(j.Last, p.View)
}

// JobLines say what a job does next, and what its last run came to.
func (p Picture) JobLines(j jobsapi.Job) []Line {
	lines := wording.JobLines(j, p.View)
	if j.Last == nil {
		return append(lines, noRun)
	}
	return append(lines, wording.RunLines("last run", *j.Last, p.View)...)
}

// How much of a job's last run the page shows.
const (
	maxRing   = 240
	maxPasses = 8
)

// NotOK returns the passes of a job's last run that did not end well.
func (p Picture) NotOK(j jobsapi.Job) []jobs.Pass {
	if j.Last == nil {
		return nil
	}
	passes := wording.NotOK(*j.Last)
	return passes[:min(len(passes), maxPasses)]
}

// Pass says how a pass ended, without what it printed.
func (p Picture) Pass(pass jobs.Pass) string {
	pass.Tail = nil
	text := wording.Region(pass.Region) + " " + wording.Word(pass.Outcome)
	if reason := wording.PassReason(pass, p.View); reason != "" {
		text += ": " + reason
	}
	return text
}

// Ring returns the first regions of a job, in the order of the configuration.
func (p Picture) Ring(j jobsapi.Job) []regions.Region {
	return j.Regions[:min(len(j.Regions), maxRing)]
}

// maxRefusals is how many refusals are shown.
const maxRefusals = 20

// Refused returns the latest calls that were refused, and passes that were not launched.
func (p Picture) Refused() []api.Refusal {
	return p.Refusals.Refusals[:min(len(p.Refusals.Refusals), maxRefusals)]
}

// What says what was refused, and Why why.
func (p Picture) What(r api.Refusal) string { return wording.RefusedWhat(r) }
func (p Picture) Why(r api.Refusal) string  { return wording.Refused(r, p.View) }
