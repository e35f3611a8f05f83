package page

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// Anchor returns the id of the row that a trouble is about; "" if it has none.
func (p Picture) Anchor(t jobsapi.Trouble) string {
	if kind, _, _ := strings.Cut(t.Of, " "); slices.Contains([]string{"limit", "job", "credential"}, kind) {
		return strings.ReplaceAll(t.Of, " ", "-")
	}
	return ""
}

// A Lead is a trouble with the row that it leads to.
type Lead struct{ To, Says, Since, Do string }

func (p Picture) Leads(t jobsapi.Trouble) Lead {
	return Lead{p.Anchor(t), t.Says, wording.Since(t, p.View), t.Do}
}

// Tone is the class of a row: the worst trouble that links to it.
func (p Picture) Tone(anchor string) string {
	for _, t := range p.Status.Triage.Troubles { // the worst first
		if p.Anchor(t) == anchor {
			return tone(wording.TroubleStyle(t))
		}
	}
	return ""
}

// rank orders rows: those with the worst trouble first.
func rank(tone string) int { return slices.Index([]string{"bad", "warn", ""}, tone) }

// A LimitRow is a limit of a credential, and what its bar shows as used and in reserve.
type LimitRow struct {
	Credential api.Credential
	api.Limit
	Rate       plan.Rate
	ID, Tone   string
	Fill, Kept int64
}

// LimitRows returns all limits, those in trouble first.
func (p Picture) LimitRows() (rows []LimitRow) {
	for _, c := range p.Status.Credentials {
		for _, l := range c.Limits {
			id := "limit-" + c.Name + "-" + l.Name
			used, kept := wording.Bar(l)
			rows = append(rows, LimitRow{c, l, plan.RateOf(p.Status.Rates, c.Name, l.Name), id, p.Tone(id), used, kept})
		}
	}
	slices.SortStableFunc(rows, func(x, y LimitRow) int { return rank(x.Tone) - rank(y.Tone) })
	return rows
}

// JobRows returns all jobs, those in trouble first.
func (p Picture) JobRows() []jobsapi.Job {
	rows := slices.Clone(p.Status.Jobs)
	slices.SortStableFunc(rows, func(x, y jobsapi.Job) int { return rank(p.Tone("job-"+x.Name)) - rank(p.Tone("job-"+y.Name)) })
	return rows
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
	curve := curveOf(l, p.Usage[c.Name][quota.ByHour], plan.RateOf(p.Status.Rates, c.Name, l.Name), p.Now)
	curve.zone = p.Zone
	curve.Label = fmt.Sprintf("limit %s of %s: %s of %s used", l.Name, c.Name, quota.Thousands(l.Used), quota.Thousands(l.Units))
	return curve
}

// maxShares is how many spenders are named; the rest is summed up.
const maxShares = 8

// A Spending is who spent what of a credential's limits.
type Spending struct {
	By     string // "job"
	Note   string // of which time
	Err    error  // why it is not known
	Shares []SpentBy
}

// SpentBy is what one spender spent.
type SpentBy struct {
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
			s.Shares = append(s.Shares, SpentBy{name, units, wording.Percent(units, u.Total.Units), float64(units) / float64(greatest)})
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
	}
	return "next " + p.Clock(j.Next) + p.ZoneMark()
}

// Last says in a few words what a job's last run came to, and what it spent.
func (p Picture) Last(j jobsapi.Job) Line {
	if j.Last == nil {
		return wording.NoRun
	}
	last := wording.LastRun(j.Last, p.View)
	last.Text += ", " + j.Last.Spent().Text()
	return last
}

// maxRing is how many regions of a job are shown.
const maxRing = 240

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
