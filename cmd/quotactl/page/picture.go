package page

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

// A Look returns what the page shows now. Its error says why nothing is known.
type Look func(context.Context) (Picture, error)

// A Picture is the facts as of one instant, and how to write them. Its methods are for page.html, which escapes what
// they return.
type Picture struct {
	Facts
	wording.View
	Lost  error     // why quotad does not answer any more; nil if it does
	Since time.Time // since when
}

// A Lead is a trouble with the row that it leads to, if there is one.
type Lead struct{ To, Says, Since, Do, Tone string }

// Leads returns the troubles, the worst first.
func (p Picture) Leads(list []jobsapi.Trouble) (leads []Lead) {
	for _, t := range list {
		leads = append(leads, Lead{p.anchor(t), t.Says, wording.Since(t, p.View), t.Do, tone(wording.TroubleStyle(t))})
	}
	return leads
}

// anchor is the id of the row that a trouble is about. A credential has that of its first limit.
func (p Picture) anchor(t jobsapi.Trouble) string {
	kind, name, _ := strings.Cut(t.Of, " ")
	switch i := slices.IndexFunc(p.Status.Credentials, func(c api.Credential) bool { return c.Name == name }); {
	case kind == "limit" || kind == "job":
		return strings.ReplaceAll(t.Of, " ", "-")
	case kind == "credential" && i >= 0 && len(p.Status.Credentials[i].Limits) > 0:
		return "limit-" + name + "-" + p.Status.Credentials[i].Limits[0].Name
	}
	return ""
}

// toneOf is the class of a row: that of the worst trouble that leads to it.
func (p Picture) toneOf(anchor string) string {
	for _, lead := range p.Leads(p.Status.Triage.Troubles) {
		if lead.To == anchor {
			return lead.Tone
		}
	}
	return ""
}

// troubledFirst orders rows by the worst trouble of each.
func troubledFirst[T any](rows []T, tone func(T) string) []T {
	rank := func(row T) int { return slices.Index([]string{"bad", "warn", ""}, tone(row)) }
	slices.SortStableFunc(rows, func(x, y T) int { return rank(x) - rank(y) })
	return rows
}

// A LimitRow is a limit of a credential. Its bar shows what is used, and what is left of the reserve.
type LimitRow struct {
	api.Limit
	Credential, ID, Tone, Style string
	Fill, Kept                  string
	Notes                       []string
	Chart                       Chart
}

// Budget is what ordinary jobs may spend.
func (l LimitRow) Budget() int64 { return l.Units - l.Reserve }

// Calm is what the page says without any trouble.
func (p Picture) Calm() string { return wording.Calm(p.Status) }

// LimitRows returns all limits, those in trouble first.
func (p Picture) LimitRows() (rows []LimitRow) {
	for _, c := range p.Status.Credentials {
		for _, l := range c.Limits {
			rows = append(rows, p.limitRow(c, l))
		}
	}
	return troubledFirst(rows, func(row LimitRow) string { return row.Tone })
}

func (p Picture) limitRow(c api.Credential, l api.Limit) LimitRow {
	id, rate := "limit-"+c.Name+"-"+l.Name, plan.RateOf(p.Status.Rates, c.Name, l.Name)
	used, kept := wording.Bar(l)
	row := LimitRow{Limit: l, Credential: c.Name, ID: id, Tone: p.toneOf(id), Style: tone(wording.LimitStyle(l)),
		Fill: percentOf(used, l.Units), Kept: percentOf(kept, l.Units),
		Notes: []string{l.Describe}, Chart: chartOf(l, p.Spent[c.Name], rate, p.Now, p.Zone)}
	if outlook := wording.Outlook(p.Status, c, l, p.View); outlook != "" {
		row.Notes = append(row.Notes, outlook)
	}
	return row
}

// percentOf is the part of a limit that an amount is, as SVG reads it.
func percentOf(units, whole int64) string {
	return fmt.Sprintf("%.2f%%", 100*min(1, float64(units)/float64(max(1, whole))))
}

// A JobRow is a job with its last runs.
type JobRow struct {
	jobsapi.Job
	ID, Tone string
	Runs     []RunMark    // the oldest first
	Said     wording.Line // in a few words, what its last run came to
	Next     wording.Line
	Lines    []wording.Line
	NotOK    []jobs.Pass
}

// A RunMark is one run.
type RunMark struct{ Class, Title string }

const (
	maxMarks  = 12 // as many as a row has room for
	maxPasses = 8
)

// JobRows returns all jobs, those in trouble first.
func (p Picture) JobRows() (rows []JobRow) {
	for _, j := range p.Status.Jobs {
		id := "job-" + j.Name
		row := JobRow{Job: j, ID: id, Tone: p.toneOf(id), Runs: p.marks(j.Name), Said: wording.NoRun, Next: wording.Next(j, p.View), Lines: wording.JobLines(j, p.View)}
		if j.Last != nil {
			row.Said = wording.LastRun(j.Last, p.View)
			row.Said.Text += ", " + j.Last.Spent().Text()
			row.NotOK = wording.NotOK(*j.Last)
			row.NotOK = row.NotOK[:min(len(row.NotOK), maxPasses)]
		}
		rows = append(rows, row)
	}
	return troubledFirst(rows, func(row JobRow) string { return row.Tone })
}

// marks returns the last runs of a job. A skipped slot is none.
func (p Picture) marks(job string) (marks []RunMark) {
	for _, r := range p.Facts.Runs { // the latest first
		if r.Job == job && r.State != jobs.RunSkipped && len(marks) < maxMarks {
			title := fmt.Sprintf("%s %s, %s", p.Clock(r.StartedAt), wording.RunState(r, p.View), wording.Tally(r))
			marks = append(marks, RunMark{tone(wording.RunStyle(r)), title})
		}
	}
	slices.Reverse(marks)
	return marks
}

// Label says for those who do not see them how many runs are shown, and how many of them failed.
func (row JobRow) Label() string {
	failed := 0
	for _, mark := range row.Runs {
		if mark.Class == "bad" {
			failed++
		}
	}
	return fmt.Sprintf("the last %s, %d failed", quota.Count(len(row.Runs), "run", "runs"), failed)
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

// tone is the CSS class of a style. No state is shown by its tone alone.
func tone(s wording.Style) string {
	return map[wording.Style]string{wording.Red: "bad", wording.Yellow: "warn", wording.Green: "good", wording.Faint: "faint"}[s]
}
